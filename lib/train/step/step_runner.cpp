#include "train/step/step_runner.hpp"

#include "base/machine/host_waits.hpp"
#include "device/host_read.hpp"
#include "train/debug/tensor_stats.hpp"
#include "train/parallel/sharded_optimizer.hpp"
#include "train/state/weights.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <cmath>
#include <limits>

namespace trainctl::train {
namespace {

constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kFlag = "flag of a non-finite step";  // the place of host waits

class NormSum final : public stage::RankSum {
 public:
  /// `timer` is null if the host does not wait for the all-reduce.
  NormSum(dist::Communicator& communicator, PartTimer* timer)
      : communicator_(communicator), timer_(timer) {}
  void add(const at::Tensor& tensor) override {
    const Part part = timer_ != nullptr ? timer_->current() : Part::other;
    if (timer_ != nullptr) timer_->enter(Part::allreduce);
    communicator_.sum(tensor, "sums of batch normalization");
    if (timer_ != nullptr) timer_->enter(part);
  }

 private:
  dist::Communicator& communicator_;
  PartTimer* timer_;
};

/// Returns `share`, or NaN if the loss is not finite. Such a loss may have a finite gradient, but
/// the scaler checks only gradients, and every rank must detect it.
at::Tensor nan_if_not_finite(const at::Tensor& share, const at::Tensor& loss) {
  return share * (loss.detach() * 0 + 1);
}

}  // namespace

/// Lends the task the run's model and loss for one batch, as all ranks train them.
class StepRunner::Tools final : public PlainTools {
 public:
  Tools(StepRunner& runner, const MicroBatch& micro)
      : PlainTools(runner.session_.model, runner.session_.loss, runner.forward_),
        runner_(runner),
        micro_(micro) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    runner_.enter(AnomalyDetector::Pass::forward);
    at::Tensor outputs;
    {
      RECORD_USER_SCOPE("forward");
      const stage::BatchOfRanksScope ranks({runner_.rank_sum_.get(), micro_.batch.valid > 0});
      const stage::CounterScope counters;
      outputs = PlainTools::forward(inputs);
      counters.add();
    }
    runner_.enter(AnomalyDetector::Pass::loss);
    return outputs;
  }

  stage::LossValue loss(const at::Tensor& outputs, const device::DeviceBatch& batch,
                        double factor) override {
    std::optional<double> gradient = runner_.loss_gradient(micro_);
    if (gradient) *gradient *= factor;
    const stage::LossGradientScope scope(gradient);
    return PlainTools::loss(outputs, batch, factor);
  }

  void average(std::vector<at::Tensor>& gradients) override {
    if (runner_.alone_) return;
    std::vector<at::Tensor> parts;
    for (const at::Tensor& gradient : gradients) parts.push_back(gradient.flatten());
    const double share =
        static_cast<double>(micro_.batch.valid) / static_cast<double>(micro_.window_rows);
    const at::Tensor sum = at::cat(parts) * share;
    runner_.timer_.enter(Part::allreduce);
    runner_.session_.communicator.sum(sum, "sum of the task's gradients");
    runner_.timer_.enter(Part::forward);
    std::int64_t first = 0;
    for (const at::Tensor& gradient : gradients) {
      const std::int64_t size = gradient.numel();
      gradient.copy_(sum.narrow(0, std::exchange(first, first + size), size).view_as(gradient));
    }
  }

  stage::BatchSamples samples(const device::DeviceBatch& batch) override {
    if (micro_.loaded == nullptr) return PlainTools::samples(batch);
    return samples_of(runner_.session_.train, *micro_.loaded, batch.inputs.size(0));
  }

 private:
  StepRunner& runner_;
  const MicroBatch& micro_;
};

std::vector<at::Tensor> trainable(const stage::Model& model) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : trained_parameters(model)) tensors.push_back(tensor);
  return tensors;
}

StepRunner::StepRunner(const Session& session, const Options& options, PartTimer& timer,
                       dist::GradSync& sync)
    : session_(session),
      timer_(timer),
      sync_(sync),
      sharded_(dynamic_cast<ShardedOptimizer*>(&session.optimizer)),
      captured_(make_captured_step(session, options, timer)),
      meter_(
          options.device,
          options.may_skip > 0 ? LossMeter::NotFinite::is_left_out : LossMeter::NotFinite::counts,
          captured_ ? LossMeter::Rows::on_device : LossMeter::Rows::on_host),
      parameters_(trainable(session.model)),
      forward_(options.forward),
      logs_norms_(options.log_norms),
      logs_layers_(options.log_layer_norms),
      world_size_(session.communicator.rank_info().world_size),
      alone_(world_size_ == 1 || options.strategy == spec::Strategy::local_sgd),
      reads_on_host_(options.device.is_cpu() && !captured_) {
  full_window_ = options.accumulate * session.batch_size * world_size_;
  forward_.widens_logits = !session.loss.accepts_16_bit();
  if (options.clip)
    clipper_.emplace(*options.clip, options.clip_algorithm,
                     reads_on_host_ ? HostReads::on_cpu : HostReads::never);
  make_scaler(options);
  if (options.detect_anomaly) watch_.emplace(session.model);
  if (options.sync_batch_norm && world_size_ > 1)
    rank_sum_ = std::make_unique<NormSum>(session.communicator, reads_on_host_ ? &timer : nullptr);
}

/// A CPU checks the gradient itself if the first non-finite step ends the run. A GPU uses the
/// scaler's flag, since a check would synchronize with it.
void StepRunner::make_scaler(const Options& options) {
  const bool scales = options.forward.precision == spec::Precision::fp16_mixed;
  const auto scaling = scales ? GradScaler::Scaling::dynamic : GradScaler::Scaling::none;
  if (options.may_skip > 0 || scales) {
    scaler_.emplace(options.device, scaling);
    std::vector<at::Tensor> buffers;
    for (const auto& [name, buffer] : session_.model.buffers()) buffers.push_back(buffer);
    kept_.emplace(buffers);
  } else if (!reads_on_host_ && !options.detect_anomaly) {
    scaler_.emplace(options.device, scaling, GradScaler::AfterNonFinite::stops);
    keeps_weights_ = session_.optimizer.skips_in_kernel();
  }
}

void StepRunner::begin_step(double lr, std::optional<double> momentum) {
  session_.optimizer.set_lr(lr);
  if (momentum) session_.optimizer.set_momentum(*momentum);
}

StepRunner::Result StepRunner::run(const MicroBatch& micro) {
  if (!captured_) return take(micro);
  // All ranks decide the same: a window is full if it is full on each of them.
  const bool measures = (logs_norms_ || logs_layers_) && micro.logs;
  const bool is_usual = micro.window_rows == full_window_ && !measures;
  using Window = CapturedStep::Window;
  result_ = Result::ok;
  const auto taken = captured_->take(micro, is_usual ? Window::usual : Window::other,
                                     [this, micro] { result_ = take(micro); });
  if (taken == CapturedStep::Execution::replayed && micro.closes) {
    sync_.count_repeated();
    if (sharded_ != nullptr) sharded_->count_repeated();
  }
  return result_;
}

StepRunner::Result StepRunner::take(const MicroBatch& micro) {
  timer_.enter(Part::optimizer);
  if (micro.opens) clear_gradients();
  if (micro.opens && kept_) kept_->take();
  timer_.enter(Part::forward);
  if (micro.closes) sync_.before_forward();
  Tools tools(*this, micro);
  const stage::TaskResult result = session_.task.step(micro.batch, tools);
  const stage::LossValue& loss = result.loss;
  enter(AnomalyDetector::Pass::none);
  // A scaler skips such steps; if the run fails later, the anomaly that was found is reported then.
  const bool watches = watch_ && !scaler_ && micro.batch.valid > 0;
  const bool finite = meter_.add(loss, micro.batch.valid) && !(watches && !all_finite(loss.value));
  if (!finite && alone_) return Result::not_finite;
  timer_.enter(Part::backward);
  at::Tensor share = share_of(loss, micro);
  if (scaler_ && micro.batch.valid > 0) share = nan_if_not_finite(share, loss.value);
  backward(finite ? share : share * kNotFinite, micro);  // so that every rank sees the NaN
  enter(AnomalyDetector::Pass::none);
  if (sees_bad_gradient(micro)) return Result::gradient_not_finite;
  if (micro.closes && !update(micro)) return Result::gradient_not_finite;
  timer_.enter(Part::other);
  if (micro.batch.valid > 0) measure_if_finite(result.outputs, result.batch.targets, loss.value);
  timer_.end_step();
  return Result::ok;
}

void StepRunner::enter(AnomalyDetector::Pass pass) {
  if (watch_) watch_->enter(pass);
}

/// Non-finite intermediate values can be harmless if a mask removes them, so the gradient decides.
/// With several ranks the others wait at the end of the window and detect it there; this rank
/// stores what it found.
bool StepRunner::sees_bad_gradient(const MicroBatch& micro) {
  if (!watch_ || scaler_ || watch_->found().empty()) return false;
  collect_gradients();
  const bool bad = !all_finite(gradients_);
  gradients_.clear();
  if (bad && anomaly_.empty()) anomaly_ = watch_->found();
  return bad && (alone_ || micro.closes);
}

std::string StepRunner::anomaly() const {
  if (!anomaly_.empty() || !watch_) return anomaly_;
  return watch_->found();
}

void StepRunner::drop_graph() {
  if (captured_) captured_->drop();
}

void StepRunner::clear_gradients() {
  if (!alone_) {  // gradients are views into the reducer's buckets and must stay so
    session_.optimizer.zero_grad();
    return;
  }
  for (at::Tensor& parameter : parameters_)
    parameter.mutable_grad().reset();  // backward sets its own tensors as gradients
}

/// The factor is that of share_of(); a dynamic loss scale is known only to the device.
std::optional<double> StepRunner::loss_gradient(const MicroBatch& micro) const {
  if (forward_.precision == spec::Precision::fp16_mixed) return std::nullopt;
  return static_cast<double>(micro.batch.valid * world_size_) /
         static_cast<double>(micro.window_rows);
}

/// Scales the mean over this rank's rows to its share of the mean over the window; averaging over
/// the ranks divides by the world size. The divisor of weighted rows is known only at the end of
/// the window, so their losses are summed until then.
at::Tensor StepRunner::share_of(const stage::LossValue& loss, const MicroBatch& micro) {
  if (loss.weight.defined()) {
    add_weight(loss.weight, micro);
    return micro.batch.valid > 0 ? loss.value : loss.value * 0;
  }
  const std::int64_t rows = micro.batch.valid * world_size_;
  if (rows == micro.window_rows) return loss.value;
  return loss.value * (static_cast<double>(rows) / static_cast<double>(micro.window_rows));
}

void StepRunner::add_weight(const at::Tensor& weight, const MicroBatch& micro) {
  const at::NoGradGuard guard;
  if (!window_weight_.defined())
    window_weight_ = at::zeros({}, weight.options().dtype(at::kDouble));
  if (micro.opens) window_weight_.zero_();
  if (micro.batch.valid > 0) window_weight_.add_(weight);
  divides_ = micro.closes;
  if (divides_ && !alone_)
    weight_of_all_ = session_.communicator.start_sum(window_weight_, "sum of the class weights");
}

void StepRunner::divide_by_weight() {
  const at::NoGradGuard guard;
  divides_ = false;
  if (const auto wait_for_sum = std::exchange(weight_of_all_, nullptr)) wait_for_sum();
  collect_gradients();
  constexpr double kNothing = 1e-30;  // if all weights are 0, the gradients are 0 and stay 0
  const int ranks = alone_ ? 1 : world_size_;
  at::_foreach_mul_(gradients_, (ranks / window_weight_.clamp_min(kNothing)).to(at::kFloat));
}

void StepRunner::backward(const at::Tensor& share, const MicroBatch& micro) {
  RECORD_USER_SCOPE("backward");
  const at::Tensor loss = scaler_ ? scaler_->scale(share) : share;
  enter(AnomalyDetector::Pass::backward);
  if (!micro.closes) {
    loss.backward();
    return;
  }
  const double exposed = sync_.backward(loss);
  if (!alone_) {
    timer_.enter(Part::allreduce);
    timer_.move(Part::backward, Part::allreduce, exposed);
  }
  if (divides_) divide_by_weight();
}

void StepRunner::collect_gradients() {
  gradients_.clear();
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) gradients_.push_back(parameter.grad());
  }
}

/// The gradients are equal on all ranks, so all ranks decide the same.
bool StepRunner::update(const MicroBatch& micro) {
  RECORD_USER_SCOPE("optimizer");
  timer_.enter(Part::optimizer);
  collect_gradients();
  if (scaler_ && !clip_checks()) scaler_->unscale(gradients_);
  if (micro.logs && !gradients_.empty()) measure_norms();
  if (!clip()) return false;
  step_optimizer();
  if (kept_) restore_buffers();
  if (scaler_) scaler_->update();
  gradients_.clear();  // holding references would keep the memory through the next step
  return true;
}

void StepRunner::measure_norms() {
  const at::NoGradGuard guard;
  if (logs_norms_) norms_ = {norm_of(gradients_), norm_of(parameters_), {}};
  if (logs_layers_) norms_.gradients = at::stack(at::_foreach_norm(gradients_, 2, at::kDouble));
}

/// Restores the buffers if the step is skipped. Does not synchronize with a GPU.
void StepRunner::restore_buffers() {
  const at::Tensor& found_inf = scaler_->found_inf();
  if (reads_on_host_ && device::value_of<float>(found_inf, kFlag) == 0) return;
  kept_->put_back_where(found_inf.squeeze().ne(0));
}

void StepRunner::step_optimizer() {
  stage::Optimizer& optimizer = sharded_ != nullptr ? sharded_->own() : session_.optimizer;
  if (scaler_ && keeps_weights_) {
    if (!scaler_->found_inf().is_cpu() && !optimizer.skips_on_device()) count_host_wait(kFlag);
    optimizer.step_unless(scaler_->found_inf());
  } else {
    optimizer.step();
  }
  if (sharded_ == nullptr) return;
  timer_.enter(Part::allreduce);
  sharded_->share();
  timer_.enter(Part::optimizer);
}

dist::SyncStats StepRunner::take_shared() {
  return sharded_ != nullptr ? sharded_->take_stats() : dist::SyncStats();
}

/// Returns whether the scaler checks the norm that clipping computes, instead of all gradients.
bool StepRunner::clip_checks() const {
  return scaler_ && !scaler_->scales() && clipper_ && clipper_->takes_norm() && !gradients_.empty();
}

/// Returns whether the gradient is finite if there is no scaler; clipping by norm checks the norm.
/// Clipping by value would hide an infinity, so the gradient is checked first.
bool StepRunner::clip() {
  const bool by_norm = clipper_ && clipper_->takes_norm();
  if (!scaler_ && !by_norm && !all_finite(gradients_)) return false;
  if (!clipper_) return true;
  const at::Tensor norm = (*clipper_)(gradients_);
  if (clip_checks()) scaler_->check(norm);
  return scaler_ || !norm.defined() ||
         std::isfinite(device::value_of<double>(norm, "norm of the gradient"));
}

/// Rows that the mean loss leaves out do not count in the metrics either.
void StepRunner::measure_if_finite(const at::Tensor& outputs, const at::Tensor& targets,
                                   const at::Tensor& loss) {
  const at::NoGradGuard guard;
  const auto measure_all = [&] {
    update_metrics(session_.metrics, session_.loss, outputs, targets);
  };
  if (!meter_.leaves_out()) return measure_all();
  if (reads_on_host_) {
    if (std::isfinite(device::value_of<double>(loss, "loss of a step"))) measure_all();
    return;
  }
  std::vector<at::Tensor> before;
  for (const auto& metric : session_.metrics)
    before.push_back(stage::as_growing(*metric) ? at::Tensor() : metric->sums().clone());
  measure_all();
  const at::Tensor finite = loss.isfinite();
  for (std::size_t i = 0; i < before.size(); ++i) {
    stage::Metric& metric = *session_.metrics[i];
    if (stage::GrowingMetric* growing = stage::as_growing(metric)) {
      growing->keep_last_update_if(finite);
    } else {
      metric.sums().copy_(at::where(finite, metric.sums(), before[i]));
    }
  }
}

}  // namespace trainctl::train
