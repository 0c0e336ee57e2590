"""Studies: advice on budgets, comparisons of samplers, measurements of variance.

registry.py      what the command line and reports need to know about each study
advice/          `bliss advise`
comparison/      `bliss compare`
variance/        `bliss variance`
model_check.py   `bliss.check`: a model over blocks against its plain forward pass
layer_errors.py  expected squared error of a layer's aggregates, in closed form
curves.py        learning curves, averaged over seeds
provenance.py    machine, versions, date and graph
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
