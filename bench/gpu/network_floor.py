"""Counts the least work of a training step of a backbone.

FLOPs: every product of a convolution or linear layer counts three times, for its output, its input's gradient and its
weights' gradient. Bytes: the input and the output of each of these products count once, in 16 bits. Batch norm, PReLU
and residual sums count as fused into the products. Weights do not count.
"""

import torch

from backbone_reference import make_backbone

VALUE_BYTES = 2


def floor(network, embedding_size=512, size=112):
    """Returns the FLOPs and bytes of one sample."""
    backbone = make_backbone(network, embedding_size, height=size, width=size).eval()
    flops, values = 0, 0

    def count(module, inputs, output):
        nonlocal flops, values
        weights = module.weight[0].numel()  # number of weights from which one output value is computed
        flops += 3 * 2 * output.numel() * weights
        values += 3 * (inputs[0].numel() + output.numel())

    for module in backbone.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            module.register_forward_hook(count)
    with torch.no_grad():
        backbone(torch.zeros(1, 3, size, size))
    return flops, values * VALUE_BYTES
