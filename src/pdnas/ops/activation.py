"""Activations of a block's output, element by element."""

import torch.nn.functional as F
from torch import Tensor

from pdnas.ops.base import Op
from pdnas.registry import Registry

ACTIVATIONS: Registry[str, type[Op]] = Registry("activation")


@ACTIVATIONS.register("none")
class NoActivation(Op):
    """``x``."""

    def forward(self, x: Tensor) -> Tensor:
        return x


@ACTIVATIONS.register("sigmoid")
class Sigmoid(Op):
    r""":math:`1 / (1 + e^{-x})`."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()


@ACTIVATIONS.register("tanh")
class Tanh(Op):
    r""":math:`\tanh x`."""

    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


@ACTIVATIONS.register("softplus")
class Softplus(Op):
    r""":math:`\log(1 + e^x)`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x)


@ACTIVATIONS.register("relu")
class ReLU(Op):
    r""":math:`\max(0, x)`."""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


@ACTIVATIONS.register("leaky-relu")
class LeakyReLU(Op):
    r""":math:`\max(0, x) + 0.01 \min(0, x)`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, 0.01)


@ACTIVATIONS.register("relu6")
class ReLU6(Op):
    r""":math:`\min(\max(0, x), 6)`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu6(x)


@ACTIVATIONS.register("elu")
class ELU(Op):
    r""":math:`x` above 0, :math:`e^x - 1` below."""

    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x)
