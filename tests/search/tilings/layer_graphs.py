"""Coarse graphs of training steps, made of the shapes of layers: products forward and backward, and updates."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from autodist.graph.operators import Access, Affine, Expression, Linearity, Reducer
from autodist.search.tilings import CoarseGraph, CoarseOperator, CoarseTensor, forms_of, linear_forms


class Layers:
    """A graph in the making: each layer adds its forward operators, and keeps what its backward ones need."""

    def __init__(self, batch):
        self.batch = batch
        self.tensors = []
        self.operators = []
        self.backward = []
        self.count = {}

    def tensor(self, name, *shape, **more):
        self.count[name] = self.count.get(name, 0) + 1
        name += f".{self.count[name]}" if self.count[name] > 1 else ""
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

    def added(self, x, y, name):
        letters = "bhwc"[: len(self.tensors[x].shape)] if len(self.tensors[x].shape) == 4 else "bc"
        z = self.rows(name, *self.tensors[x].shape[1:])
        self.operator(name, f"{letters},{letters}->{letters}", (x, y), z, "hw")
        return z

    def residual(self, x, branch, side):
        """Two branches that are added up."""
        outer = self.backward
        results, backs = [], []
        for part in (branch, side):
            self.backward = []
            results.append(part(x))
            backs.append(self.backward)
        self.backward = outer

        def back(dz):
            gradients = []
            for steps in backs:
                gradient = dz
                for step in reversed(steps):
                    gradient = step(gradient)
                gradients.append(gradient)
            return self.added(*gradients, f"d{self.tensors[x].name}")

        self.backward.append(back)
        return self.added(*results, "sum")

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


def vgg(batch, dense=4096):
    """Five blocks of convolutions, three dense layers."""
    layers = Layers(batch)
    x = layers.rows("x0", 224, 224, 3)
    side, number = 224, 0
    for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            number += 1
            x = layers.unary(layers.convolution(x, channels, 3, f"c{number}", dx=number > 1), f"relu{number}")
        side //= 2
        x = layers.resized(x, side, f"pool{number}")
    return _classified(layers, x, (dense, dense, 1000))


def alexnet(batch):
    """Five convolutions, three dense layers."""
    layers = Layers(batch)
    x = layers.rows("x0", 224, 224, 3)
    sides = ((64, 11, 55, 27), (192, 5, 27, 13), (384, 3, 13, 13), (256, 3, 13, 13), (256, 3, 13, 6))
    for number, (channels, size, side, pooled) in enumerate(sides, 1):
        x = layers.unary(layers.convolution(x, channels, size, f"c{number}", side, dx=number > 1), f"relu{number}")
        if pooled != side:
            x = layers.resized(x, pooled, f"pool{number}")
    return _classified(layers, x, (4096, 4096, 1000))


def _classified(layers, x, widths):
    x = layers.flat(x, "flat")
    for number, width in enumerate(widths, 1):
        x = layers.dense(x, width, f"f{number}")
        if number < len(widths):
            x = layers.unary(x, f"relu_f{number}")
    return layers.graph(x)


def wide_residual(batch, widen, blocks=(3, 8, 36, 3)):
    """Bottleneck blocks, WResNet-152 by default; batch normalization and activation are one."""
    layers = Layers(batch)
    x = layers.rows("x0", 224, 224, 3)
    x = layers.unary(layers.convolution(x, 64 * widen, 7, "stem", 112, dx=False), "relu_stem")
    x = layers.resized(x, 56, "pool_stem")
    side = 56
    for stage, count in enumerate(blocks):
        inner, outer = 64 * widen * 2**stage, 256 * widen * 2**stage
        for block in range(count):
            last = 56 // 2**stage
            x = _bottleneck(layers, x, f"{stage}.{block}", inner, outer, last)
            side = last
    assert side == 56 // 2 ** (len(blocks) - 1)
    return layers.graph(layers.dense(layers.flat(layers.resized(x, 1, "mean"), "flat"), 1000, "logits"))


def _bottleneck(layers, x, name, inner, outer, side):
    def branch(x):
        x = layers.unary(layers.convolution(x, inner, 1, f"{name}.a"), f"relu{name}.a")
        x = layers.unary(layers.convolution(x, inner, 3, f"{name}.b", side), f"relu{name}.b")
        return layers.convolution(x, outer, 1, f"{name}.c")

    def shortcut(x):
        same = layers.tensors[x].shape[1:] == (side, side, outer)
        return x if same else layers.convolution(x, outer, 1, f"{name}.s", side)

    return layers.unary(layers.residual(x, branch, shortcut), f"relu{name}")


def recurrent(batch, count, width, steps, given=None):
    """Layers of LSTM, unrolled; the four gates are a dim of their own. What is given may be narrower than layers."""
    layers = Layers(batch)
    widths = [given or width] + [width] * (count - 1)
    weights = [
        [layers.tensor(f"{kind}{number}", size, 4, width, stored=1) for kind, size in (("w", below), ("u", width))]
        for number, below in enumerate(widths)
    ]
    below = [layers.rows(f"x{step}", widths[0]) for step in range(steps)]
    first, hidden, gates = below, {}, {}
    for number, (w, u) in enumerate(weights):
        before = layers.rows(f"h{number}.start", width)
        inputs, below = below, []
        for step in range(steps):
            z = layers.rows(f"z{number}.{step}", 4, width)
            layers.operator("inputs", "bi,igh->bgh", (inputs[step], w), z, "g")
            r = layers.rows(f"r{number}.{step}", 4, width)
            layers.operator("recurrence", "bi,igh->bgh", (before, u), r, "g")
            h = layers.rows(f"h{number}.{step}", width)
            layers.operator("gates", "bgh,bgh->bh", (z, r), h, "g")
            gates[number, step], hidden[number, step] = (z, r), before
            before = h
            below.append(h)
    gradients = []
    for step in range(steps):
        gradients.append(layers.rows(f"loss{step}", width))
        layers.operator("loss", "bh->bh", (below[step],), gradients[-1])
    for number in reversed(range(count)):
        gradients = _through_time(layers, number, weights[number], gradients, gates, hidden, first, steps)
    return CoarseGraph(tuple(layers.tensors), tuple(layers.operators))


def _through_time(layers, number, weights, gradients, gates, hidden, first, steps):
    width = layers.tensors[weights[1]].shape[0]
    later, sums, below = None, [None, None], [None] * steps
    for step in reversed(range(steps)):
        dh = gradients[step]
        if later is not None:
            dh = layers.added(dh, later, f"dh{number}.{step}")
        dz = layers.rows(f"dz{number}.{step}", 4, width)
        layers.operator("gate_gradients", "bh,bgh,bgh->bgh", (dh, *gates[number, step]), dz, "g")
        inputs = first[step] if number == 0 else _made_by(layers, number - 1, step)
        for k, x in enumerate((inputs, hidden[number, step])):
            shape = layers.tensors[weights[k]].shape
            dw = layers.tensor(f"d{'wu'[k]}{number}.{step}", *shape, may_be_partial=True)
            layers.operator("weight_gradient", "bi,bgh->igh", (x, dz), dw, "g")
            sums[k] = dw if sums[k] is None else _sum_of_terms(layers, sums[k], dw)
        later = layers.rows(f"later{number}.{step}", width)
        layers.operator("hidden_gradient", "bgh,igh->bi", (dz, weights[1]), later, "g")
        if number:
            below[step] = layers.rows(f"dx{number}.{step}", width)
            layers.operator("input_gradient", "bgh,igh->bi", (dz, weights[0]), below[step], "g")
    for dw, w in zip(sums, weights, strict=True):
        layers.operator("update", "igh,igh->igh", (dw, w), w, "g")
    return below


def _made_by(layers, number, step):
    return next(k for k, t in enumerate(layers.tensors) if t.name == f"h{number}.{step}")


def _sum_of_terms(layers, one, other):
    """Gradients of a weight are added up; that may wait until they are reduced."""
    made = layers.tensor("terms", *layers.tensors[one].shape, may_be_partial=True)
    layers.operator("add", "igh,igh->igh", (one, other), made, "g")
    added = layers.operators[-1]
    layers.operators[-1] = replace(added, forms=added.forms + linear_forms(Linearity.JOINT, 2, 1))
    return made
