#pragma once

#include "base/clock.hpp"
#include "dist/communicator.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace trainctl::train {

struct ThreadChoice {
  int threads = 1;
  std::string why;    // "probe: 2 threads take 1.70x of 1"
  double step_s = 0;  // of a step with so many threads; 0: not measured
  double taken = 0;   // share of the cores that others took meanwhile; 0: the machine was quiet
};

struct ThreadProbe {
  int most = 2;                          // threads to compare with one
  std::function<void()> step;            // one step of a throwaway model
  std::function<void(int)> set_threads;  // at::set_num_threads
};

/// Times steps with one and with `most` threads, in turns: up to five rounds, none of which begins
/// after two seconds. Leaves the faster number set. More threads only where the median is at least
/// 1.15 times faster: next to other work they lose more than they win.
ThreadChoice probe_threads(const ThreadProbe& probe, const Clock& clock);

/// Seconds of a step, the median of a few after two for warming up: half a second, or two long
/// steps.
double time_steps(const std::function<void()>& step, const Clock& clock);

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

/// The probe of trainer.channels_last=auto on a CPU, where the operations do not tell. Times both
/// formats in turns, as probe_threads() does. Chooses channels last where the median is at least
/// 1.15 times as fast and no round is slower, so that each run on a machine chooses the same.
LayoutChoice probe_layout(const LayoutProbe& probe, const Clock& clock);

/// What decides whether blocks are computed again, in bytes.
struct StepMemory {
  std::int64_t activations = 0;  // of a step with the run's batch
  std::int64_t rest = 0;         // all else that the step needs: weights, gradients, the batch
  std::int64_t free = 0;         // before any of it is there
};

struct RecomputeChoice {
  bool recomputes = false;
  std::string why;  // "activations take about 9.1 GiB of 6.0 GiB free: blocks are recomputed";
                    // empty: it was asked for
};

/// Blocks are computed again only where the step would not fit otherwise.
RecomputeChoice choose_recompute(const StepMemory& memory);

/// The smallest of what the ranks bring, on each of them.
std::int64_t least_of_ranks(std::int64_t mine, dist::Communicator& communicator);

}  // namespace trainctl::train
