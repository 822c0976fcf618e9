r"""How choices are made random and gradients led through them: pure functions.

The generator is an argument of everything that draws, so that a search can be repeated and resumed.
"""

import math
from typing import Literal

import torch
from torch import Generator, Tensor

GateNoise = Literal["gumbel", "logistic"]
Factor = Literal["scaled", "straight-through"]


def temperature(epoch: int, *, epochs: int, anneal_start: int, anneal_rate: float) -> float:
    r"""The temperature of an epoch, the paper's last equation of section 3.2.

    .. math::
        \tau = 1 \text{ if } e < e_s, \quad
        \exp\left(-\frac{\alpha}{e_m} (e - e_s)\right) \text{ otherwise}

    Args:
        epoch: :math:`e`, from 0.
        epochs: :math:`e_m`, how many there are.
        anneal_start: :math:`e_s`.
        anneal_rate: :math:`\alpha`.
    """
    if epoch < anneal_start:
        return 1.0
    return math.exp(-anneal_rate / epochs * (epoch - anneal_start))


def noisy_probs(op_probs: Tensor, temperature: float, mask: Tensor, generator: Generator) -> Tensor:
    r"""Probabilities with noise on their own scale, equation 3.

    .. math::
        P = (\bar P + \tau\, U(0, 1)) / Z

    Args:
        op_probs: :math:`\bar P`, ``[..., T]``, zero where there is no op.
        temperature: :math:`\tau`.
        mask: Where there is an op, ``[..., T]``.
        generator: Draws :math:`U`.
    """
    noise = torch.rand(op_probs.shape, generator=generator).to(op_probs)
    noisy = op_probs + temperature * noise * mask
    return noisy / noisy.sum(dim=-1, keepdim=True)


def gate_noise(shape: tuple[int, ...], kind: GateNoise, generator: Generator) -> Tensor:
    r"""Noise for :func:`gumbel_sigmoid`.

    ``gumbel`` is the paper's :math:`g = -\log(-\log u)`; its median is not zero, so that a gate of
    logit 0 opens with probability :math:`1 - e^{-1}`. ``logistic``, the difference of two such,
    :math:`\log u - \log(1 - u)`, is the exact relaxation of a coin.
    """
    tiny = torch.finfo(torch.float32).tiny
    uniform = torch.rand(shape, generator=generator).clamp(min=tiny, max=1 - 2**-24)
    if kind == "gumbel":
        return -(-uniform.log()).log()
    return uniform.log() - (-uniform).log1p()


def gumbel_sigmoid(gate_logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    r"""Gates between 0 and 1, equation 4: :math:`\sigma((\log a + g) / \tau)`.

    Args:
        gate_logits: :math:`\log a`.
        noise: :math:`g`, of the same shape.
        temperature: :math:`\tau`; the lower, the closer to 0 and 1.
    """
    return torch.sigmoid((gate_logits + noise) / temperature)


def factors(probs: Tensor, kind: Factor) -> Tensor:
    r"""What the output of each chosen op is multiplied with, to give its probability a gradient.

    ``scaled`` is the paper's :math:`P[\mathrm{Index}]`: the output shrinks with the probability.
    ``straight-through`` is :math:`P / \mathrm{sg}(P)`: of value 1, with the gradient of
    :math:`\log P`, so that what an op is worth does not depend on how likely it is.

    Args:
        probs: Of the chosen ops, above zero.
        kind: Which of the two.
    """
    return probs if kind == "scaled" else probs / probs.detach()


def entropy(op_probs: Tensor, mask: Tensor) -> Tensor:
    r"""How open each choice is, ``[..., T] -> [...]``: 0 for a settled one, 1 for a uniform one.

    .. math::
        -\sum_t P_t \log P_t \,/\, \log T

    A slot with a single op is settled.
    """
    bits = -torch.special.xlogy(op_probs, op_probs).sum(dim=-1)
    share: Tensor = bits / mask.sum(dim=-1).clamp(min=2).log()
    return share


def mean_entropy(op_probs: Tensor, mask: Tensor) -> float:
    """:func:`entropy`, the mean over the slots that have something to choose; 0 without any."""
    is_open = mask.sum(dim=-1) > 1
    return float(entropy(op_probs, mask)[is_open].mean()) if is_open.any() else 0.0
