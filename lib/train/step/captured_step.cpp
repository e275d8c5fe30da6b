#include "train/step/captured_step.hpp"

#include "base/error.hpp"

#include <c10/util/Exception.h>

#include <utility>

namespace trainctl::train {
namespace {

constexpr const char* kEager = "CUDA graphs are not used";

/// Returns the first line of the message: libtorch appends debugging advice.
std::string reason_of(const std::exception& error) {
  const auto* libtorch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = libtorch != nullptr ? libtorch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorKind::config,
              fmt::format("trainer.cuda_graphs is true, but {}\nhint: set trainer.cuda_graphs=auto",
                          reason));
}

}  // namespace

CapturedStep::CapturedStep(std::unique_ptr<device::StepGraph> graph, PartTimer& timer,
                           EventSink emit, OnCaptureFailure on_failure)
    : graph_(std::move(graph)), timer_(timer), emit_(std::move(emit)), on_failure_(on_failure) {}

CapturedStep::Places CapturedStep::places_of(const device::DeviceBatch& batch) {
  const auto place = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.const_data_ptr() : nullptr;
  };
  return {place(batch.inputs), place(batch.targets), place(batch.targets_b), place(batch.lambda)};
}

CapturedStep::Execution CapturedStep::take(const device::DeviceBatch& batch, const Step& step) {
  const auto run_eagerly = [&step] {
    step();
    return Execution::eager;
  };
  if (!graph_) return run_eagerly();
  if (warm_ups_ < kWarmUps) {
    ++warm_ups_;
    graph_->warm_up(step);
    return Execution::eager;
  }
  const bool is_new = !recorded_.has_value();
  if (is_new) {
    if (!record(step)) return run_eagerly();
    recorded_ = places_of(batch);
  }
  if (*recorded_ != places_of(batch)) return run_eagerly();
  timer_.enter(Part::forward);  // one launch, which cannot be divided into parts
  graph_->replay();
  timer_.enter(Part::other);
  timer_.end_step();
  return is_new ? Execution::eager : Execution::replayed;  // the capture ran the host code
}

bool CapturedStep::record(const Step& step) {
  try {
    const PartTimer::Pause pause(timer_);
    graph_->record(step);
    return true;
  } catch (const std::exception& error) {
    graph_.reset();
    const std::string reason = "a step could not be captured: " + reason_of(error);
    if (on_failure_ == OnCaptureFailure::fail) refuse(reason);
    emit_(events::Warning{fmt::format("{}: {}", kEager, reason), {}});
    return false;
  }
}

std::optional<std::string> capture_obstacle(const Session& session, const Options& options) {
  if (options.capture_obstacle) return options.capture_obstacle;
  if (session.scheduler.cycles_momentum())
    return "the scheduler changes the momentum, which a captured graph cannot do";
  if (!session.optimizer.is_repeatable()) return "the optimizer keeps its learning rate on the CPU";
  const bool leaves_out =
      options.may_skip > 0 || options.forward.precision == spec::Precision::fp16_mixed;
  if (leaves_out && !session.optimizer.skips_on_device())
    return "the optimizer decides on the CPU whether to skip a non-finite step";
  if (options.log_norms && options.log_every == 1)
    return "trainer.log_norms runs logged steps without CUDA graphs, and "
           "trainer.log_every_n_steps=1 logs every step";
  if (session.loss.ignored_label() && !session.metrics.empty())
    return "metrics skip labels equal to loss.ignore_index, so the CPU must count the others";
  for (const auto& metric : session.metrics) {
    if (stage::as_growing(*metric) != nullptr)
      return "metric '" + metric->name() + "' allocates memory for the scores of each batch";
  }
  return std::nullopt;
}

bool records_steps(const Session& session, const Options& options) {
  const bool wanted = options.cuda_graphs.value_or(false) || options.cuda_graphs.is_auto();
  return wanted && !capture_obstacle(session, options);
}

std::unique_ptr<CapturedStep> make_captured_step(const Session& session, const Options& options,
                                                 PartTimer& timer) {
  const bool insists = options.cuda_graphs.value_or(false);
  if (!insists && !options.cuda_graphs.is_auto()) return nullptr;
  const auto obstacle = capture_obstacle(session, options);
  if (insists && obstacle) refuse(*obstacle);
  if (!obstacle) {
    using OnCaptureFailure = CapturedStep::OnCaptureFailure;
    return std::make_unique<CapturedStep>(
        device::make_step_graph(options.device), timer, session.emit,
        insists ? OnCaptureFailure::fail : OnCaptureFailure::warn);
  }
  if (options.device.is_cuda() && session.communicator.rank_info().rank == 0)
    session.emit(events::Warning{fmt::format("{}: {}", kEager, *obstacle), {}});
  return nullptr;
}

}  // namespace trainctl::train
