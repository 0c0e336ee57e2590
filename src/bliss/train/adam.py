"""Adam, as torch has it, without torch's compiler."""

from __future__ import annotations

from inspect import unwrap

import torch


class Adam(torch.optim.Adam):
    """`torch.optim.Adam` with the same numbers, whose first use does not import torch's compiler.

    torch wraps these methods to hide them from its compiler, and so imports the compiler when one
    of them is first called: 1.5 s and 70 MB in every process. Nothing is compiled here.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
