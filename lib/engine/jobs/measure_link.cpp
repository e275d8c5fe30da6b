#include "base/error.hpp"
#include "base/statistics.hpp"
#include "device/device.hpp"
#include "engine/jobs/jobs.hpp"
#include "engine/setup/run_components.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::engine {
namespace {

constexpr std::int64_t kSmallest = std::int64_t{1} << 10;
constexpr std::int64_t kLargest = std::int64_t{64} << 20;
constexpr std::int64_t kGrowth = 4;
constexpr double kSecondsOfASize = 0.2;
constexpr double kFewestSums = 5;
constexpr double kMostSums = 200;
constexpr double kTimeoutS = 60;

int stop_signal(const TrainctlEngineRequest& request) {
  return request.stop_signal != nullptr ? *request.stop_signal : 0;
}

/// Returns the seconds of one all-reduce, on a GPU including reading a value of the result.
double timed_sum(dist::Communicator& communicator, const at::Tensor& tensor) {
  const double begin = steady_clock().now();
  communicator.sum(tensor, "sum that measures the link");
  if (tensor.is_cuda()) (void)tensor.select(0, 0).item<float>();
  return steady_clock().now() - begin;
}

/// Returns the mean over the ranks.
double shared(dist::Communicator& communicator, double value) {
  const at::Tensor sum = at::zeros({1}, at::kDouble);
  *sum.mutable_data_ptr<double>() = value;
  communicator.sum(sum, "sum of the times");
  return *sum.const_data_ptr<double>() / communicator.rank_info().world_size;
}

/// Returns nullopt after a signal. All ranks must stop at the same size, because they take part in
/// each all-reduce.
std::optional<events::LinkMeasured> measured_sums(const TrainctlEngineRequest& request,
                                                  at::Device device,
                                                  dist::Communicator& communicator) {
  events::LinkMeasured measured;
  measured.backend = device.is_cuda() ? "nccl" : "gloo";
  measured.device = device.str();
  measured.device_name = device::gpu_info(device).name;
  measured.ranks = communicator.rank_info().world_size;
  for (std::int64_t bytes = kSmallest; bytes <= kLargest; bytes *= kGrowth) {
    if (shared(communicator, stop_signal(request)) > 0) return std::nullopt;
    // Sums of zeros stay zero.
    const at::Tensor tensor = at::zeros({bytes / static_cast<std::int64_t>(sizeof(float))},
                                        at::TensorOptions().dtype(at::kFloat).device(device));
    (void)timed_sum(communicator, tensor);
    const double warm_s = shared(communicator, timed_sum(communicator, tensor));
    const auto sums =
        static_cast<std::int64_t>(std::clamp(kSecondsOfASize / warm_s, kFewestSums, kMostSums));
    std::vector<double> seconds;
    for (std::int64_t i = 0; i < sums; ++i) seconds.push_back(timed_sum(communicator, tensor));
    measured.bytes.push_back(bytes);
    measured.seconds.push_back(shared(communicator, median(seconds)));
    measured.repeats.push_back(sums);
  }
  return measured;
}

}  // namespace

int measure_link(const TrainctlEngineRequest& request, at::Device device,
                 const train::EventSink& emit) {
  ENSURE(config, request.world_size >= 2, "measuring the link requires two or more ranks");
  spec::Distributed options;
  options.timeout_s = kTimeoutS;
  const auto communicator = build_communicator(request, options, device, nullptr);
  const auto measured = measured_sums(request, device, *communicator);
  communicator->shutdown();
  if (measured && request.rank == 0) emit(*measured);
  emit(events::Finished{0, 0, {}, {}, measured ? "measured" : "signal"});
  if (measured) return 0;
  return static_cast<int>(stop_signal(request) == SIGINT ? ErrorKind::interrupted
                                                         : ErrorKind::terminated);
}

}  // namespace trainctl::engine
