#include "base/error.hpp"
#include "base/random.hpp"
#include "device/host_read.hpp"
#include "spec/options/task.hpp"
#include "stages/builtin.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softplus.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace trainctl::stages {
namespace {

using stage::RunMode;
using torch::autograd::grad;

constexpr std::uint16_t kTraining = 0xfe01;  // of the random numbers; other tasks use others
constexpr std::uint16_t kEvaluation = 0xfe02;

/// The trainer updates the generator, after the task has updated the discriminator.
class Gan final : public stage::Task {
 public:
  Gan(const spec::task::Gan& options, const stage::TaskContext& context)
      : loss_(options.loss),
        r1_weight_(options.r1_weight),
        latent_size_(options.latent_size),
        seed_(context.seed),
        device_(context.device),
        image_(context.model.output_shape),
        evaluates_only_(!context.trains) {
    if (evaluates_only_) return;
    discriminator_ = context.build_trained(options.discriminator, {image_, 1}, options.optimizer);
    for (const auto& [name, tensor] : discriminator_.model->parameters())
      if (tensor.requires_grad()) parameters_.push_back(tensor);
  }

  stage::TaskResult step(const device::DeviceBatch& batch, stage::StepTools& tools) override {
    const at::Tensor images = generate(tools, tools.samples(batch));
    stage::TaskResult result{images.flatten(1), batch, {}};
    if (evaluates_only_) {
      result.loss.value = 0 * images.mean();  // no weights file contains the discriminator
      return result;
    }
    discriminator_.model->set_mode(tools.mode());
    if (tools.mode() == RunMode::evaluate) {
      result.loss.value = loss_of(images, tools);
    } else {
      train_discriminator(batch.inputs, images.detach(), tools);
      result.loss.value = with_gradient(images, tools);
    }
    return result;
  }

  [[nodiscard]] const stage::TrainedModel* trained() const override {
    return evaluates_only_ ? nullptr : &discriminator_;
  }

  at::Tensor samples(stage::StepTools& tools) override {
    constexpr std::size_t kImages = 64;
    stage::BatchSamples first{0, std::vector<std::int64_t>(kImages)};
    std::iota(first.indices.begin(), first.indices.end(), 0);
    return generate(tools, first);
  }

 private:
  /// An evaluation draws the same numbers in each epoch.
  at::Tensor generate(stage::StepTools& tools, const stage::BatchSamples& samples) const {
    const bool trains = tools.mode() == RunMode::train;
    const auto rows = static_cast<std::int64_t>(samples.indices.size());
    const at::Tensor latents = at::empty({rows, latent_size_}, at::kFloat);
    auto* value = latents.mutable_data_ptr<float>();
    for (const std::int64_t sample : samples.indices) {
      CounterRng rng(seed_, static_cast<std::uint32_t>(trains ? samples.epoch : 0),
                     static_cast<std::uint64_t>(sample), trains ? kTraining : kEvaluation);
      for (std::int64_t i = 0; i < latent_size_; ++i) *value++ = normal(rng);
    }
    at::Tensor images =
        tools.forward(device::copy_to(latents, device_, "random numbers of a batch"));
    std::vector<std::int64_t> shape{rows};
    shape.insert(shape.end(), image_.begin(), image_.end());
    ENSURE(config, images.numel() == c10::multiply_integers(shape),
           "the task 'gan' needs a model with one output for each value of an image, {}, but it "
           "has {} for each image",
           c10::multiply_integers(image_), images.numel() / rows);
    return images.to(at::kFloat).reshape(shape);
  }

  /// Draws from a normal distribution (Box & Muller 1958), with the same bits on every machine.
  static float normal(CounterRng& rng) {
    const double radius = std::sqrt(-2 * portable_log(1 - rng.uniform()));
    return static_cast<float>(radius * sin_cos_degrees(360.0 * rng.uniform()).cos);
  }

  at::Tensor scores(const at::Tensor& images, stage::StepTools& tools) const {
    return tools.forward_trained(*discriminator_.model, images).to(at::kFloat);
  }

  at::Tensor loss_of(const at::Tensor& images, stage::StepTools& tools) const {
    const at::Tensor found = scores(images, tools);
    return loss_ == spec::task::GanLoss::hinge ? -found.mean() : at::softplus(-found).mean();
  }

  /// Returns the loss with its gradient with respect to the images only, so that the trainer's
  /// backward pass leaves the discriminator unchanged.
  at::Tensor with_gradient(const at::Tensor& images, stage::StepTools& tools) const {
    const at::Tensor leaf = images.detach().requires_grad_();
    const at::Tensor loss = loss_of(leaf, tools);
    const at::Tensor product = (images * grad({loss}, {leaf})[0]).sum();
    return loss.detach() + (product - product.detach());
  }

  void train_discriminator(const at::Tensor& images, const at::Tensor& fake,
                           stage::StepTools& tools) {
    const at::Tensor real = images.detach().requires_grad_(r1_weight_ > 0);
    const at::Tensor of_real = scores(real, tools);
    const at::Tensor of_fake = scores(fake, tools);
    at::Tensor loss = loss_ == spec::task::GanLoss::hinge
                          ? (1 - of_real).relu().mean() + (1 + of_fake).relu().mean()
                          : at::softplus(-of_real).mean() + at::softplus(of_fake).mean();
    if (r1_weight_ > 0) {
      const at::Tensor slope =
          grad({of_real.sum()}, {real}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
      loss = loss + slope.square().sum() * (r1_weight_ / 2 / static_cast<double>(real.size(0)));
    }
    torch::autograd::backward({loss}, {}, /*retain_graph=*/{}, /*create_graph=*/false, parameters_);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
    tools.average(gradients);
    discriminator_.optimizer->step();
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

  spec::task::GanLoss loss_;
  double r1_weight_;
  std::int64_t latent_size_;
  std::uint64_t seed_;
  at::Device device_;
  std::vector<std::int64_t> image_;  // C, H, W
  bool evaluates_only_;
  stage::TrainedModel discriminator_;
  std::vector<at::Tensor> parameters_;  // of the discriminator
};

}  // namespace

void register_task_gan(stage::Catalog& catalog) {
  catalog.tasks.add_class<spec::task::Gan, Gan>("gan");
}

}  // namespace trainctl::stages
