"""Settings for a given time: a pilot that chooses sampler, history, batch size and budgets.

gradient_noise.py  cost of a setting, from the error of its gradient and the time of its step
rough_costs.py     nodes of a step and seconds of a set-up before any was timed
kinds.py           samplers and sizes that are considered
expected_time.py   seconds of a set-up or a step, from those that were timed
timed_pilot.py     measurements on a network that is trained for a moment
schedule.py        number of steps and evaluations in the time that is left
choice.py          `choose`: the settings of a run, and why
timed_run.py       `timed_config`: the same, or those of a run that was started before
"""
