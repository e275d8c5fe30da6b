#include "train/step.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <string_view>
#include <utility>

namespace trainctl::train {
namespace {

/// Autograd's anomaly mode names the operation; to the user that is a run that diverged.
[[noreturn]] void rethrow_anomaly(const c10::Error& error) {
  const std::string_view text = error.what_without_backtrace();
  if (text.find("returned nan values") == std::string_view::npos) throw error;
  throw Error(ErrorKind::diverged,
              fmt::format("detect_anomaly: {}; lower optimizer.lr or set trainer.gradient_clip_val",
                          printable(text.substr(0, text.find('\n')))));
}

}  // namespace

std::vector<at::Tensor> trainable(const stage::Model& model) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : model.parameters()) {
    if (tensor.requires_grad()) tensors.push_back(tensor);
  }
  return tensors;
}

StepRunner::StepRunner(const Session& session, const Options& options, PartTimer& timer,
                       dist::GradSync& sync)
    : session_(session),
      timer_(timer),
      sync_(sync),
      meter_(options.device),
      parameters_(trainable(session.model)),
      names_anomalies_(options.detect_anomaly),
      world_size_(session.communicator.place().world_size),
      on_cpu_(options.device.is_cpu()) {
  if (options.clip) clipper_.emplace(parameters_, *options.clip, options.clip_algorithm);
}

StepRunner::Result StepRunner::run(const MicroBatch& micro, double lr) {
  timer_.enter(Part::optimizer);
  if (micro.opens) clear_gradients();
  timer_.enter(Part::forward);
  if (micro.closes) sync_.before_forward();
  const at::Tensor logits = session_.model.forward(micro.batch.inputs);
  const stage::LossValue loss = loss_of(logits, micro.batch);
  if (!meter_.add(loss, micro.batch.valid)) return Result::not_finite;
  timer_.enter(Part::backward);
  backward(share_of(loss, micro), micro);
  if (micro.closes) update(lr);
  timer_.enter(Part::other);
  measure(logits, micro);
  timer_.end_step();
  return Result::ok;
}

void StepRunner::clear_gradients() {
  if (world_size_ > 1) {  // gradients are views into the reducer's buckets, and stay so
    session_.optimizer.zero_grad();
    return;
  }
  for (at::Tensor& parameter : parameters_)
    parameter.mutable_grad().reset();  // backward hands over its own tensors
}

stage::LossValue StepRunner::loss_of(const at::Tensor& logits, const device::DeviceBatch& batch) {
  if (!batch.lambda.defined()) return session_.loss.forward(logits, batch.targets);
  return session_.loss.forward_mixed(logits, {batch.targets, batch.targets_b, batch.lambda});
}

/// The mean over this rank's rows becomes its share of the mean over the window; the average over
/// the ranks divides by the world. What weighed rows are divided by is known once the window is
/// closed: till then they are summed.
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
  if (micro.closes)
    weight_of_all_ = session_.communicator.start_sum(window_weight_, "sum of the class weights");
}

void StepRunner::divide_by_weight() {
  const at::NoGradGuard guard;
  std::exchange(weight_of_all_, nullptr)->wait();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  constexpr double kNothing = 1e-30;  // where no row weighs, the gradients are 0 and stay so
  at::_foreach_mul_(gradients, (world_size_ / window_weight_.clamp_min(kNothing)).to(at::kFloat));
}

void StepRunner::backward(const at::Tensor& share, const MicroBatch& micro) {
  try {
    if (!micro.closes) {
      share.backward();
      return;
    }
    const double exposed = sync_.backward(share);
    if (on_cpu_ && world_size_ > 1) {
      timer_.enter(Part::allreduce);
      timer_.move(Part::backward, Part::allreduce, exposed);
    }
    if (weight_of_all_) divide_by_weight();
  } catch (const c10::Error& error) {
    if (!names_anomalies_) throw;
    rethrow_anomaly(error);
  }
}

void StepRunner::update(double lr) {
  timer_.enter(Part::optimizer);
  if (clipper_) (*clipper_)();
  session_.optimizer.set_lr(lr);
  session_.optimizer.step();
}

void StepRunner::measure(const at::Tensor& logits, const MicroBatch& micro) {
  if (micro.batch.valid == 0) return;
  const at::NoGradGuard guard;
  for (const auto& metric : session_.metrics) metric->update(logits, micro.batch.targets);
}

}  // namespace trainctl::train
