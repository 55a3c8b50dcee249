"""The backbones in PyTorch, written from their descriptions, to compare pfc with them.

- iresnet (arXiv 2004.04989): stem conv3x3-BN-PReLU; blocks BN-conv3x3-BN-PReLU-conv3x3(stride)-BN plus
  identity, or conv1x1(stride)-BN where the shape changes; at the end BN-dropout-fc-BN1d, whose weight is
  frozen at 1.
- iresnet in the form of AdaFace's net.py and CVLface: reads BGR, takes every second pixel as the first
  block's shortcut, and has no weights in its last BN.
- iresnet in the form of TFace adds squeeze and excitation (arXiv 1709.01507) to each branch.
- resnet (arXiv 1512.03385) in the form of torchvision, without its classifier: a stem
  conv7x7(2)-BN-ReLU-max pool; blocks conv-BN-ReLU-conv-BN, or with three convolutions, of which the one of
  3x3 has the stride, plus identity and ReLU; at the end the average over pixels.
- mobilefacenet (arXiv 1804.07573) in the widths of arcface_torch.
- vit (arXiv 2010.11929) in the form of arcface_torch. Its random choices are those of pfc, computed here
  from Philox's definition.

Names in the state dict are arcface_torch's, AdaFace's, TFace's or torchvision's.
"""

import math
import os

import numpy as np
import torch
from torch import nn

IRESNET_BLOCKS = {"r18": (2, 2, 2, 2), "r34": (3, 4, 6, 3), "r50": (3, 4, 14, 3),
                  "r100": (3, 13, 30, 3), "r200": (6, 26, 60, 6)}
ADAFACE_BLOCKS = {"ir_18": (2, 2, 2, 2), "ir_50": (3, 4, 14, 3), "ir_101": (3, 13, 30, 3)}
TFACE_BLOCKS = {"ir_se_50": (3, 4, 14, 3), "ir_se_101": (3, 13, 30, 3)}
MBF = {"mbf": ((1, 4, 6, 2), 2), "mbf_large": ((2, 8, 12, 4), 4)}
RESNET = {  # blocks, convolutions of a block
    "resnet18": ((2, 2, 2, 2), 2), "resnet34": ((3, 4, 6, 3), 2), "resnet50": ((3, 4, 6, 3), 3),
    "resnet101": ((3, 4, 23, 3), 3)}
VIT = {  # width, depth, drop path, fraction of masked tokens
    "vit_t": (256, 12, .1, .1), "vit_t_dp005_mask0": (256, 12, .05, 0),
    "vit_s": (512, 12, .1, .1), "vit_s_dp005_mask_0": (512, 12, .05, 0),
    "vit_b": (512, 24, .1, .1), "vit_b_dp005_mask_005": (512, 24, .05, .05),
    "vit_l_dp005_mask_005": (768, 24, .05, .05), "vit_h": (1024, 48, .1, 0)}

# Networks that differ from another one only in the number of their blocks.
DEEPER = {"r34", "r100", "r200", "ir_101", "ir_se_101", "resnet34", "resnet101"}


def some_depths(networks):
    """Returns the networks without DEEPER; all of them if PFC_ALL_NETWORKS is set."""
    return [each for each in networks if each not in DEEPER or os.environ.get("PFC_ALL_NETWORKS")]


def convolution(inputs, outputs, kernel, stride=1, groups=1, padding=None):
    padding = kernel // 2 if padding is None else padding
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)


class IResNetBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = convolution(inputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.prelu = nn.PReLU(outputs)
        self.conv2 = convolution(outputs, outputs, 3, stride)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        y = self.prelu(self.bn2(self.conv1(self.bn1(x))))
        return self.bn3(self.conv2(y)) + identity


class IResNet(nn.Module):
    def __init__(self, blocks, embedding_size, dropout, height, width):
        super().__init__()
        self.conv1 = convolution(3, 64, 3)
        self.bn1 = nn.BatchNorm2d(64)
        self.prelu = nn.PReLU(64)
        channels = 64
        for stage, count in enumerate(blocks):
            outputs = 64 << stage
            layers = [IResNetBlock(channels, outputs, 2)]
            layers += [IResNetBlock(outputs, outputs, 1) for _ in range(count - 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
            channels = outputs
        self.bn2 = nn.BatchNorm2d(512)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(512 * (height // 16) * (width // 16), embedding_size)
        self.features = nn.BatchNorm1d(embedding_size)
        self.features.weight.requires_grad_(False)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, 0, 0.1)

    def forward(self, x):
        x = self.prelu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = self.dropout(torch.flatten(self.bn2(x), 1))
        return self.features(self.fc(x))


class SqueezeAndExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.fc1 = convolution(channels, channels // 16, 1)
        self.fc2 = convolution(channels // 16, channels, 1)

    def forward(self, x):
        mean = x.mean((2, 3), keepdim=True)
        return x * self.fc2(self.fc1(mean).relu()).sigmoid()


class AdafaceBlock(nn.Module):
    def __init__(self, inputs, outputs, stride, squeezes):
        super().__init__()
        self.res_layer = nn.Sequential(
            nn.BatchNorm2d(inputs), convolution(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.PReLU(outputs),
            convolution(outputs, outputs, 3, stride), nn.BatchNorm2d(outputs))
        if squeezes:
            self.res_layer.add_module("se_block", SqueezeAndExcite(outputs))
        self.shortcut_layer = nn.MaxPool2d(1, stride) if inputs == outputs else nn.Sequential(
            convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return self.res_layer(x) + self.shortcut_layer(x)


class AdafaceIResNet(nn.Module):
    """Takes RGB like all networks here; its first convolution reads BGR. With `squeezes` it is TFace's network,
    which reads RGB.
    """

    def __init__(self, blocks, embedding_size, dropout, height, width, squeezes):
        super().__init__()
        self.input_layer = nn.Sequential(convolution(3, 64, 3), nn.BatchNorm2d(64), nn.PReLU(64))
        strides = [stride for count in blocks for stride in [2] + [1] * (count - 1)]
        widths = [64 << stage for stage, count in enumerate(blocks) for _ in range(count)]
        self.reads_bgr = not squeezes
        self.body = nn.Sequential(*map(AdafaceBlock, [64] + widths, widths, strides, [squeezes] * len(widths)))
        self.output_layer = nn.Sequential(
            nn.BatchNorm2d(512), nn.Dropout(dropout), nn.Flatten(),
            nn.Linear(512 * (height // 16) * (width // 16), embedding_size),
            nn.BatchNorm1d(embedding_size, affine=False))
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.output_layer(self.body(self.input_layer(x.flip(1) if self.reads_bgr else x)))


class ResNetBlock(nn.Module):
    def __init__(self, inputs, width, stride, convolutions):
        super().__init__()
        outputs = width if convolutions == 2 else 4 * width
        self.convolutions = convolutions
        sizes = [(inputs, width, 3, stride), (width, width, 3, 1)] if convolutions == 2 else [
            (inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        for i, size in enumerate(sizes, 1):
            setattr(self, f"conv{i}", convolution(*size))
            setattr(self, f"bn{i}", nn.BatchNorm2d(size[1]))
            setattr(self, f"relu{i}", nn.ReLU())
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        for i in range(1, self.convolutions + 1):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x))
            x = getattr(self, f"relu{i}")(x if i < self.convolutions else x + identity)
        return x


class ResNet(nn.Module):
    def __init__(self, blocks, convolutions):
        super().__init__()
        self.conv1 = convolution(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                stride = 2 if i == 0 and stage > 0 else 1
                layers.append(ResNetBlock(channels, 64 << stage, stride, convolutions))
                channels = (64 << stage) * (1 if convolutions == 2 else 4)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3))


class Chain(nn.Module):
    """Modules in sequence, under the name `layers`."""

    def __init__(self, *modules):
        super().__init__()
        self.layers = nn.Sequential(*modules)

    def forward(self, x):
        return self.layers(x)


class AddInput(Chain):
    def forward(self, x):
        return x + self.layers(x)


def conv_block(inputs, outputs, kernel=1, stride=1, groups=1):
    return Chain(convolution(inputs, outputs, kernel, stride, groups), nn.BatchNorm2d(outputs),
                 nn.PReLU(outputs))


def depthwise(inputs, outputs, width, stride=2, kind=Chain):
    return kind(conv_block(inputs, width), conv_block(width, width, 3, stride, width),
                Chain(convolution(width, outputs, 1), nn.BatchNorm2d(outputs)))


def residuals(channels, count, width):
    return Chain(*(depthwise(channels, channels, width, 1, AddInput) for _ in range(count)))


class MobileFaceNet(nn.Module):
    def __init__(self, blocks, scale, embedding_size, size):
        super().__init__()
        c1, c2 = 64 * scale, 128 * scale
        second = (conv_block(c1, c1, 3, groups=64) if blocks[0] == 1
                  else residuals(c1, blocks[0], 128))
        self.layers = nn.ModuleList([
            conv_block(3, c1, 3, 2), second,
            depthwise(c1, c1, 128), residuals(c1, blocks[1], 128),
            depthwise(c1, c2, 256), residuals(c2, blocks[2], 256),
            depthwise(c2, c2, 512), residuals(c2, blocks[3], 256)])
        self.conv_sep = conv_block(c2, 512)
        gdc = Chain(convolution(512, 512, size // 16, groups=512, padding=0), nn.BatchNorm2d(512))
        self.features = Chain(gdc, nn.Flatten(), nn.Linear(512, embedding_size, bias=False),
                              nn.BatchNorm1d(embedding_size))
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.features(self.conv_sep(x))


def philox_uniform(seed, stream, step, elements):
    """Returns pfc's random numbers for these elements: Philox 4x32-10, with 24 bits of a word for each number."""
    def multiply(factor, x):
        product = np.uint64(factor) * x
        return product >> np.uint64(32), product & np.uint64(0xffffffff)

    block = np.asarray(elements, np.uint64) // np.uint64(4)
    c = [block & np.uint64(0xffffffff), block >> np.uint64(32), np.full_like(block, step),
         np.full_like(block, stream)]
    key = [seed & 0xffffffff, seed >> 32]
    for _ in range(10):
        (high0, low0), (high1, low1) = multiply(0xD2511F53, c[0]), multiply(0xCD9E8D57, c[2])
        c = [high1 ^ c[1] ^ np.uint64(key[0]), low1, high0 ^ c[3] ^ np.uint64(key[1]), low0]
        key = [(key[0] + 0x9E3779B9) & 0xffffffff, (key[1] + 0xBB67AE85) & 0xffffffff]
    words = np.choose(np.asarray(elements, np.int64) % 4, c)
    return (words >> np.uint64(8)).astype(np.float64) * 2.0 ** -24


DROPOUT, TOKEN_MASK = 6, 11  # pfc's numbers of these random streams


class Fast:
    """Selects PyTorch's attention (in autocast's precision) and PyTorch's random numbers for transformers."""

    on = False


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if Fast.on:
            if hasattr(nn.functional, "scaled_dot_product_attention"):  # since PyTorch 2
                y = nn.functional.scaled_dot_product_attention(q, k, v)
            else:
                y = (q @ k.transpose(2, 3) / math.sqrt(width // self.heads)).softmax(-1) @ v
            return self.proj(y.transpose(1, 2).reshape(batch, tokens, width))
        with torch.autocast(x.device.type, enabled=False):
            if q.dtype in (torch.bfloat16, torch.float16):
                q, k, v = q.float(), k.float(), v.float()
            weights = (q @ k.transpose(2, 3) / math.sqrt(width // self.heads)).softmax(-1)
            y = (weights @ v).transpose(1, 2).reshape(batch, tokens, width)
        return self.proj(y)


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.ReLU6()
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.fc1(x)  # PyTorch 1.13 has no gradient of ReLU6 in bfloat16
        return self.fc2(self.act(x.float() if x.dtype == torch.bfloat16 else x))


class DropPath(nn.Module):
    """Stochastic depth with pfc's random numbers. `layer`: number of this layer among those of this kind."""

    def __init__(self, rate, layer, seed, step):
        super().__init__()
        self.rate, self.layer, self.seed, self.step = rate, layer, seed, step

    def forward(self, x):
        if not self.training or self.rate == 0:
            return x
        if Fast.on:
            return x * (torch.rand(len(x), 1, 1, device=x.device) >= self.rate) / (1 - self.rate)
        samples = np.arange(len(x), dtype=np.uint64) + np.uint64(self.layer << 40)
        kept = philox_uniform(self.seed, DROPOUT, self.step, samples) >= np.float32(self.rate)
        factors = torch.tensor(kept / (1 - float(np.float32(self.rate)))).to(x)
        return x * factors[:, None, None]


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, rate, number, seed, step):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)
        self.path1 = DropPath(rate, 2 * number, seed, step)
        self.path2 = DropPath(rate, 2 * number + 1, seed, step)

    def forward(self, x):
        x = x + self.path1(self.attn(self.norm1(x)))
        return x + self.path2(self.mlp(self.norm2(x)))


class Vit(nn.Module):
    def __init__(self, width, depth, drop_path, mask, embedding_size, height, w, seed=0, step=0):
        super().__init__()
        patch, heads = 9, 8
        self.tokens = (height // patch) * (w // patch)
        self.kept = int(self.tokens * (1 - mask))
        self.seed, self.step = seed, step
        self.mask_token = nn.Parameter(torch.randn(1, 1, width) * .02)
        self.pos_embed = nn.Parameter(torch.randn(1, self.tokens, width) * .02)
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, width, patch, patch)
        rates = np.linspace(0, drop_path, depth)
        self.blocks = nn.ModuleList([TransformerBlock(width, heads, float(rate), i, seed, step)
                                     for i, rate in enumerate(rates)])
        self.norm = nn.LayerNorm(width)
        self.feature = nn.Sequential(
            nn.Linear(width * self.tokens, width, bias=False), nn.BatchNorm1d(width, eps=2e-5),
            nn.Linear(width, embedding_size, bias=False),
            nn.BatchNorm1d(embedding_size, eps=2e-5))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def kept_tokens(self, batch, device):
        """Returns the indices of the tokens that each sample keeps, in their order."""
        if Fast.on:
            return torch.rand(batch, self.tokens, device=device).argsort(1)[:, :self.kept].sort(1)[0]
        numbers = philox_uniform(self.seed, TOKEN_MASK, self.step,
                                 np.arange(batch * self.tokens)).reshape(batch, self.tokens)
        return torch.tensor(np.sort(np.argsort(numbers, axis=1, kind="stable")[:, :self.kept]), device=device)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2) + self.pos_embed
        masks = self.training and self.kept < self.tokens
        if masks:
            kept = self.kept_tokens(len(x), x.device)[:, :, None].expand(-1, -1, x.shape[2])
            x = x.gather(1, kept)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if masks:
            x = self.mask_token.to(x.dtype).expand(len(x), self.tokens, -1).scatter(1, kept, x)
        return self.feature(x.flatten(1))


def blocks_in(network):
    """Returns the numbers of blocks in "ir_se:1,1,1,2"."""
    return tuple(map(int, network.split(":")[1].split(",")))


def make_backbone(network, embedding_size=512, dropout=0.0, height=112, width=112):
    if network in IRESNET_BLOCKS:
        return IResNet(IRESNET_BLOCKS[network], embedding_size, dropout, height, width)
    if network in ADAFACE_BLOCKS:
        return AdafaceIResNet(ADAFACE_BLOCKS[network], embedding_size, dropout, height, width, squeezes=False)
    if network.startswith("ir_se"):
        blocks = TFACE_BLOCKS[network] if network in TFACE_BLOCKS else blocks_in(network)
        return AdafaceIResNet(blocks, embedding_size, dropout, height, width, squeezes=True)
    if network in RESNET:
        return ResNet(*RESNET[network])
    if network.startswith("bottlenecks:"):
        return ResNet(blocks_in(network), 3)
    if network.startswith("vit"):
        # Either a name, or the numbers "vit:WIDTH,DEPTH,DROP_PATH,MASK".
        form = VIT[network] if network in VIT else network.split(":")[1].split(",")
        return Vit(int(form[0]), int(form[1]), float(form[2]), float(form[3]), embedding_size,
                   height, width)
    blocks, scale = MBF[network]
    return MobileFaceNet(blocks, scale, embedding_size, height)


def embedding_size_of(network):
    """Returns the size of the embeddings of make_backbone(network)."""
    return 2048 if network.startswith("bottlenecks:") or RESNET.get(network, (0, 0))[1] == 3 else 512


def normalised(images):
    """Converts uint8 [B, H, W, 3] to float [B, 3, H, W] in [-1, 1]."""
    return (images.permute(0, 3, 1, 2).float() / 127.5 - 1).contiguous()
