#pragma once

#include "base/clock.hpp"
#include "dist/communicator.hpp"
#include "spec/experiment/experiment.hpp"

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>

namespace trainctl::train {

/// A number of threads and the reason for it.
struct ThreadChoice {
  int threads = 1;
  std::string why;    // "probe: a step takes 1.70x as long with 2 threads as with 1"
  double step_s = 0;  // seconds of a step with this number of threads; 0: not known
  double taken = 0;   // share of the cores that other processes used; 0: the machine was idle
};

/// The input of probe_threads().
struct ThreadProbe {
  int most = 2;                          // number of threads to compare with one
  std::function<void()> step;            // one step of a throwaway model
  std::function<void(int)> set_threads;  // at::set_num_threads
};

/// Times steps with one and with `most` threads alternately: up to five rounds, none of which
/// begins after two seconds. Sets the chosen number. Chooses `most` only if its median is at least
/// 1.15 times faster, because next to other load more threads lose more than they gain.
ThreadChoice probe_threads(const ThreadProbe& probe, const Clock& clock);

/// Returns how many steps on the device must run before one is timed. The first steps on a GPU
/// load cuBLAS, cuDNN and kernels, and choose algorithms, which can take seconds.
int warm_up_steps(at::Device device);

/// Returns the median seconds of a step on the device. `step` returns when the device has finished
/// it. On a CPU, two warm-up steps count as part of the limit of half a second, and the last of
/// them is the result if they exceed it. On a GPU, half a second begins after warm_up_steps(), and
/// at least one step is timed.
double time_steps(const std::function<void()>& step, at::Device device, const Clock& clock);

/// The memory format of images and of convolution weights.
struct LayoutChoice {
  bool channels_last = false;
  std::string why;  // "configured", "97 % of the operations are convolutions of images"
};

/// The floating-point operations of a model's forward pass.
struct LayoutFacts {
  std::int64_t flops = 0;              // of all operators that FlopCounter counts
  std::int64_t convolution_flops = 0;  // of 2-d convolutions, see is_image_convolution()
};

inline constexpr const char* kNoConvolutions = "the model has no convolutions of images";

/// Returns whether GPU kernels of this precision are faster with channels-last images: the 16-bit
/// ones are.
bool gains_by_channels_last(spec::Precision precision);

/// Decides trainer.channels_last=auto for 16-bit training on a GPU: channels last if at least two
/// thirds of the operations are convolutions of images. It measures no time, so every machine and
/// every run chooses the same.
LayoutChoice choose_layout(const LayoutFacts& facts);

/// The same step of a throwaway model in both memory formats.
struct LayoutProbe {
  std::function<void()> channels_first;
  std::function<void()> channels_last;
};

/// Decides trainer.channels_last=auto on a CPU, where the number of operations predicts little.
/// Times both formats alternately like probe_threads(). Chooses channels last if the median is at
/// least 1.15 times as fast and no round is slower, so that every run on a machine chooses the
/// same.
LayoutChoice probe_layout(const LayoutProbe& probe, const Clock& clock);

/// The memory that decides trainer.activation_checkpointing, in bytes.
struct StepMemory {
  std::int64_t activations = 0;  // of a step with the run's batch
  std::int64_t rest = 0;  // everything else that the step needs: weights, gradients, the batch
  std::int64_t free = 0;  // before anything of the step is allocated
};

/// Whether to use activation checkpointing, and why.
struct RecomputeChoice {
  bool recomputes = false;
  std::string why;  // "activations need about 9.1 GiB ..., so blocks are recomputed";
                    // empty: the user requested it
};

/// Turns on activation checkpointing only if the step would not fit otherwise.
RecomputeChoice choose_recompute(const StepMemory& memory);

/// Returns the smallest value over all ranks, on every rank.
std::int64_t least_of_ranks(std::int64_t mine, dist::Communicator& communicator);

}  // namespace trainctl::train
