"""Why a class is not compiled: one line each, for the message and for the table of docs/compiling.md."""

from __future__ import annotations

__all__ = ["LIMITS", "REASONS"]

_SOLVES = "solves a problem for each row"
_SEES = "has results for the rows of its fit alone"
_GRAPH = "gives a graph of its neighbours among the rows of its fit"
_COVARIANCE = "estimates a covariance, and predicts nothing"
_TIES = "a row whose choice of equally near rows matters is refused"
_EDGE = "a row with a neighbour at the very edge of the radius is refused"
_WORDS = "gives lists of words, of any length: a program gives tables"
_SEARCH = "searches the rows of its fit in trees that may stop early"

REASONS: dict[str, str] = {
    "pyspark.BucketedRandomProjectionLSHModel": "joins rows by similarity",
    "pyspark.DistributedLDAModel": "is made for the rows of its fit",
    "pyspark.FeatureHasher": "keeps nulls apart from NaN, and writes numbers as the JVM does",
    "pyspark.Interaction": "expands categories that only the metadata of each DataFrame name",
    "pyspark.LDAModel": _SOLVES,
    "pyspark.LocalLDAModel": _SOLVES,
    "pyspark.MinHashLSHModel": "joins rows by similarity",
    "pyspark.NGram": _WORDS,
    "pyspark.RFormulaModel": "holds a pipeline in the JVM, of stages that pyspark does not have",
    "pyspark.RegexTokenizer": "splits by the JVM's regular expressions",
    "pyspark.SQLTransformer": "is a query",
    "pyspark.StopWordsRemover": _WORDS,
    "pyspark.TargetEncoderModel": "keeps statistics in the JVM, and encodes nulls apart from NaN",
    "pyspark.Tokenizer": _WORDS,
    "pyspark.Word2VecModel": "averages vectors of words, in an order of the JVM's",
    "sklearn.AgglomerativeClustering": _SEES,
    "sklearn.ClassicalMDS": _SEES,
    "sklearn.DBSCAN": _SEES,
    "sklearn.DictionaryLearning": _SOLVES,
    "sklearn.EmpiricalCovariance": _COVARIANCE,
    "sklearn.GraphicalLasso": _COVARIANCE,
    "sklearn.GraphicalLassoCV": _COVARIANCE,
    "sklearn.HDBSCAN": _SEES,
    "sklearn.Isomap": "looks for shortest paths for each row",
    "sklearn.KNeighborsTransformer": _GRAPH,
    "sklearn.KernelDensity": _SEARCH,
    "sklearn.LabelPropagation": "weighs all rows of its fit",
    "sklearn.LabelSpreading": "weighs all rows of its fit",
    "sklearn.LatentDirichletAllocation": _SOLVES,
    "sklearn.LedoitWolf": _COVARIANCE,
    "sklearn.LocalOutlierFactor": "measures the neighbours of neighbours",
    "sklearn.LocallyLinearEmbedding": _SOLVES,
    "sklearn.MDS": _SEES,
    "sklearn.MinCovDet": _COVARIANCE,
    "sklearn.MiniBatchDictionaryLearning": _SOLVES,
    "sklearn.MiniBatchNMF": _SOLVES,
    "sklearn.MiniBatchSparsePCA": _SOLVES,
    "sklearn.NMF": _SOLVES,
    "sklearn.NearestNeighbors": _GRAPH,
    "sklearn.OAS": _COVARIANCE,
    "sklearn.OPTICS": _SEES,
    "sklearn.PatchExtractor": "takes images",
    "sklearn.RadiusNeighborsTransformer": _GRAPH,
    "sklearn.ShrunkCovariance": _COVARIANCE,
    "sklearn.SparseCoder": _SOLVES,
    "sklearn.SparsePCA": _SOLVES,
    "sklearn.SpectralBiclustering": _SEES,
    "sklearn.SpectralClustering": _SEES,
    "sklearn.SpectralCoclustering": _SEES,
    "sklearn.SpectralEmbedding": _SEES,
    "sklearn.TSNE": _SEES,
}
"""By the name that the registry has. A class with a parser is compiled, whatever stands here."""

LIMITS: dict[str, str] = {
    "pyspark.CountVectorizerModel": "minTF of 1, at most 65,536 words",
    "pyspark.HashingTF": "lists of texts, at most 65,536 buckets but for a linear model",
    "pyspark.IndexToString": "labels that are set, of a column that a stage computes",
    "pyspark.StringIndexerModel": "columns of texts",
    "sklearn.BaggingClassifier": "no predict_log_proba if a member has none that is compiled",
    "sklearn.BernoulliRBM": "no score_samples, which draws random numbers",
    "sklearn.CalibratedClassifierCV": "no temperature over OneVsRestClassifier",
    "sklearn.DummyClassifier": "no strategy that draws numbers",
    "sklearn.DictVectorizer": "a row with NaN is refused",
    "sklearn.FeatureAgglomeration": "means of columns",
    "sklearn.FunctionTransformer": "functions of numpy",
    "sklearn.IterativeImputer": "a row of nothing but missing values is refused",
    "sklearn.KNNImputer": _TIES,
    "sklearn.KNeighborsClassifier": _TIES,
    "sklearn.KNeighborsRegressor": _TIES,
    "sklearn.MultiLabelBinarizer": "labels that are texts or whole numbers",
    "sklearn.RadiusNeighborsClassifier": _EDGE,
    "sklearn.RadiusNeighborsRegressor": _EDGE,
    "sklearn.TransformedTargetRegressor": "functions of numpy, and scalers",
    "sklearn.VotingClassifier": "no negative weight of votes",
}
"""What is refused of a class that is compiled."""
