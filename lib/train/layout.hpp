#pragma once

#include "spec/experiment.hpp"

#include <cstdint>
#include <string>

namespace trainctl::train {

/// The memory format of images and of convolution weights.
struct LayoutChoice {
  bool channels_last = false;
  std::string why;  // "asked", "97 % of the operations are convolutions of images"
};

/// The floating-point operations of a model's forward pass, and where they are computed.
struct LayoutFacts {
  std::int64_t flops = 0;              // of all operators that are counted
  std::int64_t convolution_flops = 0;  // of two-dimensional convolutions, see image_convolution()
  bool on_cpu = true;
  spec::Precision precision = spec::Precision::full;
};

/// Returns whether the kernels of this device and precision gain by channels-last images: those of
/// a GPU in 16 bits. On a CPU the gain depends on the CPU and the network: from 0.93x to 1.08x for
/// five networks on one with AVX-512.
bool gains_by_channels_last(const LayoutFacts& facts);

/// The rule of trainer.channels_last=auto: channels last where the kernels gain by it and at least
/// two thirds of the operations are convolutions of images. The rule measures no time, so that
/// every machine of a kind and every run choose the same.
LayoutChoice choose_layout(const LayoutFacts& facts);

}  // namespace trainctl::train
