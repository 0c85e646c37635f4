"""Coarse graphs of training steps, made of the shapes of layers: products forward and backward, and updates."""

from __future__ import annotations

from math import prod

from autodist.graph.operators import Access, Affine, Expression, Reducer
from autodist.search.tilings import CoarseGraph, CoarseOperator, CoarseTensor, forms_of


class Layers:
    """A graph in the making: each layer adds its forward operators, and keeps what its backward ones need."""

    def __init__(self, batch):
        self.batch = batch
        self.tensors = []
        self.operators = []
        self.backward = []

    def tensor(self, name, *shape, **more):
        self.tensors.append(CoarseTensor(name, shape, **more))
        return len(self.tensors) - 1

    def rows(self, name, *shape):
        return self.tensor(name, self.batch, *shape, batch_dim=0)

    def operator(self, name, equation, inputs, output, joined="", count=1):
        """An operator by the letters of its indices, `bi,io->bo`; the letters that the result lacks are summed."""
        left, right = equation.split("->")
        letters = [*left.split(","), right]
        shapes = [self.tensors[t].shape for t in (*inputs, output)]
        sizes = {n: s for names, shape in zip(letters, shapes, strict=True) for n, s in zip(names, shape, strict=True)}
        summed = {n: Reducer.SUM for n in sizes if n not in right}
        accesses = [Access(tuple(Affine.of(n) for n in names)) for names in letters]
        found = Expression(sizes, (accesses[-1],), tuple(accesses[:-1]), summed, frozenset(joined))
        forms = forms_of(found, dict(enumerate(shapes)))
        self.operators.append(CoarseOperator(name, tuple(inputs), (output,), forms, count))

    def dense(self, x, outputs, name, dx=True):
        width = self.tensors[x].shape[1]
        w = self.tensor(f"w{name}", width, outputs, stored=1)
        y = self.rows(f"x{name}", outputs)
        self.operator(f"dense{name}", "bi,io->bo", (x, w), y)

        def back(dy):
            dw = self.tensor(f"dw{name}", width, outputs)
            self.operator(f"weight_gradient{name}", "bi,bo->io", (x, dy), dw)
            self.operator(f"update{name}", "io,io->io", (dw, w), w)
            if not dx:
                return None
            result = self.rows(f"d{self.tensors[x].name}", width)
            self.operator(f"input_gradient{name}", "bo,io->bi", (dy, w), result)
            return result

        self.backward.append(back)
        return y

    def convolution(self, x, outputs, size, name, side=None, dx=True):
        """Images are cut by batch and channels, as the papers do; three channels are not cut."""
        _, height, width, inputs = self.tensors[x].shape
        side = side or height
        w = self.tensor(f"w{name}", size, size, inputs, outputs, stored=1)
        y = self.rows(f"x{name}", side, side, outputs)
        fixed = "hwHWkl"
        self.operator(f"conv{name}", "bhwi,klio->bHWo", (x, w), y, fixed)

        def back(dy):
            dw = self.tensor(f"dw{name}", size, size, inputs, outputs)
            self.operator(f"weight_gradient{name}", "bhwi,bHWo->klio", (x, dy), dw, fixed)
            self.operator(f"update{name}", "klio,klio->klio", (dw, w), w, "kl")
            if not dx:
                return None
            result = self.rows(f"d{self.tensors[x].name}", height, width, inputs)
            self.operator(f"input_gradient{name}", "bHWo,klio->bhwi", (dy, w), result, fixed)
            return result

        self.backward.append(back)
        return y

    def unary(self, x, name):
        """What is computed element by element, and its gradient, which needs its result."""
        shape = self.tensors[x].shape
        letters = "bhwc"[: len(shape)] if len(shape) == 4 else "bc"
        y = self.rows(f"x{name}", *shape[1:])
        self.operator(name, f"{letters}->{letters}", (x,), y, "hw")

        def back(dy):
            result = self.rows(f"d{self.tensors[x].name}", *shape[1:])
            self.operator(f"d{name}", f"{letters},{letters}->{letters}", (dy, y), result, "hw")
            return result

        self.backward.append(back)
        return y

    def resized(self, x, side, name):
        """Pooling: images and channels by themselves."""
        _, height, width, channels = self.tensors[x].shape
        y = self.rows(f"x{name}", side, side, channels)
        self.operator(name, "bhwc->bHWc", (x,), y, "hwHW")

        def back(dy):
            result = self.rows(f"d{self.tensors[x].name}", height, width, channels)
            self.operator(f"d{name}", "bHWc->bhwc", (dy,), result, "hwHW")
            return result

        self.backward.append(back)
        return y

    def flat(self, x, name):
        """Images as rows: cut by batch only, as channels stand innermost."""
        shape = self.tensors[x].shape
        y = self.rows(f"x{name}", prod(shape[1:]))
        self.operator(name, "bhwc->bf", (x,), y, "hwcf")

        def back(dy):
            result = self.rows(f"d{self.tensors[x].name}", *shape[1:])
            self.operator(f"d{name}", "bf->bhwc", (dy,), result, "hwcf")
            return result

        self.backward.append(back)
        return y

    def graph(self, last):
        """With a loss computed element by element, and everything backward."""
        letters = "bhwc" if len(self.tensors[last].shape) == 4 else "bc"
        gradient = self.rows(f"d{self.tensors[last].name}", *self.tensors[last].shape[1:])
        self.operator("loss", f"{letters}->{letters}", (last,), gradient, "hw")
        for back in reversed(self.backward):
            gradient = back(gradient)
        return CoarseGraph(tuple(self.tensors), tuple(self.operators))


def mlp(batch, widths):
    """Products, without a gradient of the inputs."""
    layers = Layers(batch)
    x = layers.rows("x0", widths[0])
    for number, width in enumerate(widths[1:], 1):
        x = layers.dense(x, width, number, dx=number > 1)
    return layers.graph(x)
