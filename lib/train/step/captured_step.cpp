#include "train/step/captured_step.hpp"

#include "base/error.hpp"
#include "base/machine/cuda_errors.hpp"
#include "train/step/step_runner.hpp"

#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <algorithm>
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

/// After these errors, no collective can succeed.
bool is_lost_rank(const std::exception& error) {
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return true;
  const auto* own = dynamic_cast<const Error*>(&error);
  return own != nullptr &&
         (own->kind() == ErrorKind::rank_failed || own->kind() == ErrorKind::hang);
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (const auto* cuda = dynamic_cast<const c10::AcceleratorError*>(&error))
    return cuda_fault(cuda->get_error_code()) == CudaFault::out_of_memory;
  const auto* own = dynamic_cast<const Error*>(&error);
  return own != nullptr && own->kind() == ErrorKind::resource;
}

/// The kinds of batches of a window; kOnly: the window has one batch.
enum Kind : std::size_t { kMiddle, kFirst, kLast, kOnly };

Kind kind_of(const MicroBatch& micro) {
  if (micro.opens) return micro.closes ? kOnly : kFirst;
  return micro.closes ? kLast : kMiddle;
}

/// Returns the lowest rank on which the capture failed; nullopt if it succeeded on all. Every rank
/// must call it, and waits for the others.
std::optional<int> first_failure(dist::Communicator& communicator, bool failed_here) {
  const at::Tensor mine = at::full({1}, failed_here ? 1 : 0, at::kLong);
  const auto all = communicator.all_gather(mine, "comparison of the captured steps");
  const auto failed = std::ranges::find_if(
      all, [](const at::Tensor& one) { return *one.const_data_ptr<std::int64_t>() != 0; });
  if (failed == all.end()) return std::nullopt;
  return static_cast<int>(failed - all.begin());
}

/// Returns the number of steps until the profile is written. They run eagerly, because a replayed
/// step has no operators to be recorded.
std::int64_t profiled_steps(const Options& options) {
  if (!options.profiler || options.profiler->cuda_graphs) return 0;
  return options.profiler->wait + options.profiler->warmup + options.profiler->active;
}

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorKind::config,
              fmt::format("trainer.cuda_graphs is true, but {}\nhint: set trainer.cuda_graphs=auto",
                          reason));
}

}  // namespace

CapturedStep::Addresses CapturedStep::addresses_of(const device::DeviceBatch& batch) {
  const auto address = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.const_data_ptr() : nullptr;
  };
  return {address(batch.inputs), address(batch.targets), address(batch.targets_b),
          address(batch.lambda)};
}

CapturedStep::Mode CapturedStep::mode_of(Window window) const {
  if (!setup_.graph || window == Window::other || windows_ < setup_.eager_windows)
    return Mode::eager;
  return warm_ups_ < kWarmUps ? Mode::warms_up : Mode::captured;
}

CapturedStep::Execution CapturedStep::take(const MicroBatch& micro, Window window,
                                           const Step& step) {
  if (micro.opens) {
    mode_ = mode_of(window);
    ++windows_;
  }
  if (mode_ == Mode::warms_up) {
    uses_recorded_ = false;
    setup_.graph->warm_up(step);
    if (micro.closes) ++warm_ups_;
    return Execution::eager;
  }
  if (mode_ == Mode::captured) {
    const auto& recorded = recorded_[kind_of(micro)];
    const bool is_new = !recorded.has_value();
    if (is_new ? record(micro, step) : recorded->addresses == addresses_of(micro.batch)) {
      replay(micro, *recorded);
      return is_new ? Execution::eager : Execution::replayed;  // the capture ran the host code
    }
    // If a rank left the first window that is captured, the others would wait for its captures.
    ASSERT(is_new || recorded_[kLast] || recorded_[kOnly] ||
           setup_.communicator.rank_info().world_size == 1);
    mode_ = Mode::eager;
  }
  if (micro.opens) uses_recorded_ = false;
  step();
  return Execution::eager;
}

bool CapturedStep::record(const MicroBatch& micro, const Step& step) {
  std::optional<std::string> reason;
  std::exception_ptr no_memory;
  try {
    const PartTimer::Pause pause(setup_.timer);
    recorded_[kind_of(micro)] = {setup_.graph->record(step), addresses_of(micro.batch)};
  } catch (const std::exception& error) {
    if (is_lost_rank(error)) throw;
    reason = "a step could not be captured: " + reason_of(error);
    if (is_out_of_memory(error)) no_memory = std::current_exception();
  }
  const std::optional<int> failed = first_failure(setup_.communicator, reason.has_value());
  if (!failed) {
    if (micro.opens) {
      gradients_.clear();
      for (const at::Tensor& parameter : setup_.parameters) gradients_.push_back(parameter.grad());
      uses_recorded_ = true;
    }
    return true;
  }
  // The graphs have already run the earlier batches of the window.
  if (!micro.opens) use_recorded_gradients();
  drop();
  const bool fails = setup_.on_failure == OnCaptureFailure::fail;
  if (fails && no_memory) std::rethrow_exception(no_memory);
  if (fails && reason) refuse(*reason);
  if (reason && *failed == setup_.communicator.rank_info().rank)
    setup_.emit(events::Warning{fmt::format("{}: {}", kEager, *reason), {}});
  return false;
}

void CapturedStep::replay(const MicroBatch& micro, const Recorded& recorded) {
  if (micro.opens && !uses_recorded_) use_recorded_gradients();
  setup_.timer.enter(Part::graph);  // one launch, which cannot be divided into parts
  setup_.graph->replay(recorded.graph);
  setup_.timer.enter(Part::other);
  setup_.timer.end_step();
}

/// A graph adds up its own tensors. If they are the gradients of the parameters, too, the rest of
/// the window can run eagerly, and the gradients of earlier eager windows are freed.
void CapturedStep::use_recorded_gradients() {
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    setup_.parameters[i].mutable_grad() = gradients_[i];
  uses_recorded_ = true;
}

void CapturedStep::drop() {
  setup_.graph.reset();
  recorded_ = {};
  gradients_.clear();
  mode_ = Mode::eager;
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
  if ((options.log_norms || options.log_layer_norms) && options.log_every == 1)
    return fmt::format(
        "trainer.{} runs logged steps without CUDA graphs, and "
        "trainer.log_every_n_steps=1 logs every step",
        options.log_norms ? "log_norms" : "log_layer_norms");
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
  const bool reports = options.device.is_cuda() && session.communicator.rank_info().rank == 0;
  if (!obstacle) {
    const std::int64_t profiled = profiled_steps(options);
    if (reports && profiled > 0)
      session.emit(events::Warning{
          fmt::format("{} for the first {} steps: the profiler records single operations", kEager,
                      profiled),
          {}});
    using OnCaptureFailure = CapturedStep::OnCaptureFailure;
    return std::make_unique<CapturedStep>(
        CapturedStep::Setup{.graph = session.make_graph(options.device),
                            .timer = timer,
                            .emit = session.emit,
                            .communicator = session.communicator,
                            .parameters = trainable(session.model),
                            .on_failure = insists ? OnCaptureFailure::fail : OnCaptureFailure::warn,
                            .eager_windows = profiled});
  }
  if (reports) session.emit(events::Warning{fmt::format("{}: {}", kEager, *obstacle), {}});
  return nullptr;
}

}  // namespace trainctl::train
