"""Refusals: the error of a model that cannot be compiled, and the reasons that docs/compiling.md lists per class."""

from __future__ import annotations

from optimizer.compiling import UnsupportedOperatorError

__all__ = ["EXAMPLE", "LIMITS", "REASONS", "damaged", "refusal", "refuse"]

EXAMPLE = "Pass example=, a table that the model reads."
"""Remedy for columns whose kind or number the model does not say."""


def refusal(
    subject: str, reason: str = "", remedy: str = "Score the model with its own library."
) -> UnsupportedOperatorError:
    """Return the error of a model, or an option of one, that cannot be compiled.

    ``subject`` names the model, with its option if that is the obstacle: ``"SVC with kernel='precomputed'"``.
    ``reason`` is a clause, ``remedy`` a sentence that says what to do instead.
    """
    cause = f": {reason}" if reason else ""
    return UnsupportedOperatorError(f"{subject} cannot be compiled{cause}. {remedy}")


def refuse(
    model: object, option: str, reason: str = "", remedy: str = "Score the model with its own library."
) -> UnsupportedOperatorError:
    """Return the error of a model with an option that cannot be compiled."""
    return refusal(f"{type(model).__name__} with {option}", reason, remedy)


def damaged(document: str, error: object) -> UnsupportedOperatorError:
    """Return the error of a model file that cannot be read."""
    if isinstance(error, UnsupportedOperatorError):  # a refusal within a complete document
        return UnsupportedOperatorError(str(error))
    cause = repr(error).partition("\\n")[0]
    return UnsupportedOperatorError(f"{document} must be complete, got a damaged one ({cause}). Save it again.")


_SOLVES = "solves a problem for each row"
_SEES = "has results for the rows of its fit alone"
_GRAPH = "gives a graph of its neighbours among the rows of its fit"
_COVARIANCE = "estimates a covariance, and predicts nothing"
_TIES = "a row whose choice of equally near rows matters is refused"
_WORDS = "gives lists of words, of any length: a program gives tables"
_SEARCH = "searches the rows of its fit in trees that may stop early"
_RARE = "is rarely used, and no longer compiled"

REASONS: dict[str, str] = {
    "pyspark.AFTSurvivalRegressionModel": _RARE,
    "pyspark.BisectingKMeansModel": _RARE,
    "pyspark.BucketedRandomProjectionLSHModel": "joins rows by similarity",
    "pyspark.DCT": _RARE,
    "pyspark.DistributedLDAModel": "is made for the rows of its fit",
    "pyspark.FMClassificationModel": _RARE,
    "pyspark.FMRegressionModel": _RARE,
    "pyspark.FeatureHasher": "keeps nulls apart from NaN, and writes numbers as the JVM does",
    "pyspark.GaussianMixtureModel": _RARE,
    "pyspark.Interaction": "expands categories that only the metadata of each DataFrame name",
    "pyspark.IsotonicRegressionModel": _RARE,
    "pyspark.LDAModel": _SOLVES,
    "pyspark.LocalLDAModel": _SOLVES,
    "pyspark.MinHashLSHModel": "joins rows by similarity",
    "pyspark.NGram": _WORDS,
    "pyspark.PolynomialExpansion": _RARE,
    "pyspark.RFormulaModel": "holds a pipeline in the JVM, of stages that pyspark does not have",
    "pyspark.RegexTokenizer": "splits by the JVM's regular expressions",
    "pyspark.SQLTransformer": "is a query",
    "pyspark.StopWordsRemover": _WORDS,
    "pyspark.TargetEncoderModel": "keeps statistics in the JVM, and encodes nulls apart from NaN",
    "pyspark.Tokenizer": _WORDS,
    "pyspark.Word2VecModel": "averages vectors of words, in an order of the JVM's",
    "sklearn.AdditiveChi2Sampler": _RARE,
    "sklearn.AffinityPropagation": _RARE,
    "sklearn.AgglomerativeClustering": _SEES,
    "sklearn.BernoulliRBM": _RARE,
    "sklearn.Birch": _RARE,
    "sklearn.BisectingKMeans": _RARE,
    "sklearn.CCA": _RARE,
    "sklearn.ClassicalMDS": _SEES,
    "sklearn.DBSCAN": _SEES,
    "sklearn.DictionaryLearning": _SOLVES,
    "sklearn.EmpiricalCovariance": _COVARIANCE,
    "sklearn.FeatureAgglomeration": _RARE,
    "sklearn.FeatureHasher": _RARE,
    "sklearn.GaussianProcessClassifier": _RARE,
    "sklearn.GaussianProcessRegressor": _RARE,
    "sklearn.GraphicalLasso": _COVARIANCE,
    "sklearn.GraphicalLassoCV": _COVARIANCE,
    "sklearn.HDBSCAN": _SEES,
    "sklearn.Isomap": "looks for shortest paths for each row",
    "sklearn.KNeighborsTransformer": _GRAPH,
    "sklearn.KernelCenterer": _RARE,
    "sklearn.KernelDensity": _SEARCH,
    "sklearn.LabelPropagation": "weighs all rows of its fit",
    "sklearn.LabelSpreading": "weighs all rows of its fit",
    "sklearn.LatentDirichletAllocation": _SOLVES,
    "sklearn.LedoitWolf": _COVARIANCE,
    "sklearn.LocalOutlierFactor": "measures the neighbours of neighbours",
    "sklearn.LocallyLinearEmbedding": _SOLVES,
    "sklearn.MDS": _SEES,
    "sklearn.MeanShift": _RARE,
    "sklearn.MinCovDet": _COVARIANCE,
    "sklearn.MiniBatchDictionaryLearning": _SOLVES,
    "sklearn.MiniBatchNMF": _SOLVES,
    "sklearn.MiniBatchSparsePCA": _SOLVES,
    "sklearn.NMF": _SOLVES,
    "sklearn.NearestCentroid": _RARE,
    "sklearn.NearestNeighbors": _GRAPH,
    "sklearn.NeighborhoodComponentsAnalysis": _RARE,
    "sklearn.Nystroem": _RARE,
    "sklearn.OAS": _COVARIANCE,
    "sklearn.OPTICS": _SEES,
    "sklearn.OutputCodeClassifier": _RARE,
    "sklearn.PLSCanonical": _RARE,
    "sklearn.PLSSVD": _RARE,
    "sklearn.PatchExtractor": "takes images",
    "sklearn.PolynomialCountSketch": _RARE,
    "sklearn.RBFSampler": _RARE,
    "sklearn.RadiusNeighborsClassifier": _RARE,
    "sklearn.RadiusNeighborsRegressor": _RARE,
    "sklearn.RadiusNeighborsTransformer": _GRAPH,
    "sklearn.RandomTreesEmbedding": _RARE,
    "sklearn.ShrunkCovariance": _COVARIANCE,
    "sklearn.SkewedChi2Sampler": _RARE,
    "sklearn.SparseCoder": _SOLVES,
    "sklearn.SparsePCA": _SOLVES,
    "sklearn.SpectralBiclustering": _SEES,
    "sklearn.SpectralClustering": _SEES,
    "sklearn.SpectralCoclustering": _SEES,
    "sklearn.SpectralEmbedding": _SEES,
    "sklearn.SplineTransformer": _RARE,
    "sklearn.TSNE": _SEES,
}
"""By the name that the registry has. A class with a parser is compiled, whatever stands here."""

LIMITS: dict[str, str] = {
    "pyspark.CountVectorizerModel": "minTF of 1, at most 65,536 words",
    "pyspark.HashingTF": "lists of texts, at most 65,536 buckets but for a linear model",
    "pyspark.IndexToString": "labels that are set, of a column that a stage computes",
    "pyspark.StringIndexerModel": "columns of texts",
    "sklearn.BaggingClassifier": "no predict_log_proba if a member has none that is compiled",
    "sklearn.CalibratedClassifierCV": "sigmoid and isotonic calibration",
    "sklearn.DummyClassifier": "no strategy that draws numbers",
    "sklearn.DictVectorizer": "a row with NaN is refused",
    "sklearn.FunctionTransformer": "functions of numpy",
    "sklearn.IterativeImputer": "a row of nothing but missing values is refused",
    "sklearn.KNNImputer": _TIES,
    "sklearn.KNeighborsClassifier": _TIES,
    "sklearn.KNeighborsRegressor": _TIES,
    "sklearn.MultiLabelBinarizer": "labels that are texts or whole numbers",
    "sklearn.TransformedTargetRegressor": "functions of numpy, and scalers",
    "sklearn.VotingClassifier": "no negative weight of votes",
}
"""What is refused of a class that is compiled."""
