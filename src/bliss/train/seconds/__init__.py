"""Settings for a given time: a pilot that chooses sampler, history, batch size and budgets.

gradient_noise.py  cost of a setting, from the error of its gradient and the time of its step
kinds.py           samplers and sizes that are considered
timed_pilot.py     measurements on a network that is trained for a moment
schedule.py        number of steps and evaluations in the time that is left
choice.py          `choose`: the settings of a run, and why
timed_run.py       `timed_config`: the same, or those of a run that was started before
"""
