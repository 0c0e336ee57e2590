from .advice import advise as advise
from .advice_records import Advice as Advice
from .comparison import compare as compare
from .entrants import EVERYTHING as EVERYTHING
from .records import Comparison as Comparison
from .records import Variance as Variance
from .runs import Standing as Standing
from .variance import VarianceStudy as VarianceStudy
