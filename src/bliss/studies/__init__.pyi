from .advice.advice import advise as advise
from .advice.advice_record import Advice as Advice
from .comparison.comparison import compare as compare
from .comparison.comparison_record import Comparison as Comparison
from .comparison.runs import StudyProgress as StudyProgress
from .comparison.sampler_settings import ALL_SAMPLERS as ALL_SAMPLERS
from .variance.variance_record import Variance as Variance
from .variance.variance_study import VarianceStudy as VarianceStudy
