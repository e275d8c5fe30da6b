#pragma once

#include "base/clock.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace trainctl::train {

/// The memory format of images and of convolution weights.
struct LayoutChoice {
  bool channels_last = false;
  std::string why;  // "asked", "97 % of the operations are convolutions of images"
};

/// The floating-point operations of a model's forward pass.
struct LayoutFacts {
  std::int64_t flops = 0;              // of all operators that are counted
  std::int64_t convolution_flops = 0;  // of two-dimensional convolutions, see image_convolution()
};

inline constexpr const char* kNoConvolutions = "the model has no convolutions of images";

/// Returns whether a GPU's kernels of this precision gain by channels-last images: those of 16
/// bits.
bool gains_by_channels_last(spec::Precision precision);

/// The rule of trainer.channels_last=auto on a GPU in 16 bits: channels last where at least two
/// thirds of the operations are convolutions of images. It measures no time, so that every machine
/// and every run choose the same.
LayoutChoice choose_layout(const LayoutFacts& facts);

/// The same step of a throwaway model in both memory formats.
struct LayoutProbe {
  std::function<void()> channels_first;
  std::function<void()> channels_last;
};

/// The probe of trainer.channels_last=auto on a CPU, where the operations do not tell: networks
/// gained from 0.93x to 1.5x, depending on shapes, threads and CPU. Times both formats in turns,
/// see time_in_turns(). Chooses channels last where the median of the rounds is at least 1.15 times
/// as fast and no round is slower: it changes the order of additions, so that the choice should be
/// the same in each run on a machine.
LayoutChoice probe_layout(const LayoutProbe& probe, const Clock& clock);

}  // namespace trainctl::train
