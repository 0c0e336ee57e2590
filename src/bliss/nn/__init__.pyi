from .config import MODELS as MODELS
from .config import ModelConfig as ModelConfig
from .inference import LayerSurvey as LayerSurvey
from .inference import infer as infer
from .inference import infer_layer as infer_layer
from .model import GNN as GNN
