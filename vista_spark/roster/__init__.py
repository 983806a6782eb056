"""Networks that the platform knows by name, with their preprocessing and their layers counted from the top.

Architectures, layer order and state-dict keys are torchvision's, so that its published weights fit; torchvision itself
is not needed. Names that begin with ``keras_`` are networks of ``keras.applications``; ``minilm_l6`` reads text. The
roster is Vista's idea: Nakandala and Kumar, *Vista: optimized system for declarative feature transfer from deep CNNs at
scale*, SIGMOD 2020, section 3.3.

Examples
--------
>>> from vista_spark import roster
>>> roster.names()[:4]
('alexnet', 'vgg16', 'resnet18', 'resnet50')
>>> [name for name in roster.names() if name.startswith("keras_")][:3]
['keras_vgg16', 'keras_resnet50', 'keras_inception_v3']
>>> network = roster.load("mobilenet_v2")  # seeded random weights; a second argument names real ones
"""

from udfs.roster import (
    ClassNames,
    FeatureLayer,
    ModelCard,
    card,
    fetch_weights,
    fetched_weights,
    fitting_class_names,
    from_pretrained,
    is_model_file,
    is_name,
    is_shipped,
    load,
    names,
    of,
    published_weights,
    read_class_names,
    register,
    text_encoder,
    unregister,
)

__all__ = [
    "ClassNames",
    "FeatureLayer",
    "ModelCard",
    "card",
    "fetch_weights",
    "fetched_weights",
    "fitting_class_names",
    "from_pretrained",
    "is_model_file",
    "is_name",
    "is_shipped",
    "load",
    "names",
    "of",
    "published_weights",
    "read_class_names",
    "register",
    "text_encoder",
    "unregister",
]
