#include "stages/model/blocks/fused_batch_norm.hpp"

#include "device/device.hpp"
#include "device/kernels.hpp"
#include "stage/forward_context.hpp"
#include "stages/kernel_calls.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace trainctl::stages {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kPixels = at::MemoryFormat::ChannelsLast;

/// The values that normalize the channels.
struct Moments {
  at::Tensor mean;  // float32 [channels]
  at::Tensor var;   // float32 [channels], biased
};

/// Returns whether the kernels can read the pixels of x as rows of channels.
bool has_pixel_rows(const at::Tensor& x) {
  return x.dim() == 4 && x.is_contiguous(kPixels) && is_aligned(x) &&
         x.size(1) * static_cast<std::int64_t>(x.element_size()) % device::kPackBytes == 0;
}

at::Tensor make_pixel_rows(const at::Tensor& x) {
  const at::Tensor rows = x.contiguous(kPixels);
  return is_aligned(rows) ? rows : rows.clone(kPixels);
}

at::Tensor empty_pixels(const at::Tensor& x) { return at::empty(x.sizes(), x.options(), kPixels); }

/// The tensors of a call, as the kernels read them.
struct Arguments {
  at::Tensor x, residual, weight, bias, mean, var;
  double eps = 0;
  bool relu = true;
};

template <class Job>
Job job_of(const at::Tensor& x) {
  Job job;
  job.x = x.const_data_ptr();
  job.type = element_of(x);
  job.channels = x.size(1);
  job.rows = x.numel() / job.channels;
  return job;
}

template <class Job>
Job job_of(const Arguments& arguments) {
  auto job = job_of<Job>(arguments.x);
  job.mean = arguments.mean.const_data_ptr<float>();
  job.var = arguments.var.const_data_ptr<float>();
  job.weight = arguments.weight.const_data_ptr<float>();
  job.bias = arguments.bias.const_data_ptr<float>();
  job.eps = static_cast<float>(arguments.eps);
  job.relu = arguments.relu;
  return job;
}

at::Tensor compute(const Arguments& arguments) {
  at::Tensor y = empty_pixels(arguments.x);
  auto job = job_of<device::BatchNormRelu>(arguments);
  if (arguments.residual.defined()) job.residual = arguments.residual.const_data_ptr();
  job.y = y.mutable_data_ptr();
  if (y.is_cpu()) {
    device::batch_norm_relu_on_host(job);
  } else {
    check_launch(device::launch_batch_norm_relu(job, device::current_stream(y.device())),
                 "batch_norm_relu");
  }
  return y;
}

void run(const device::BatchNormReluBackward& job, at::Device on) {
  if (on.is_cpu()) return device::batch_norm_relu_backward_on_host(job);
  check_launch(device::launch_batch_norm_relu_backward(job, device::current_stream(on)),
               "batch_norm_relu_backward");
}

struct BatchNormReluFunction : torch::autograd::Function<BatchNormReluFunction> {
  // NOLINTNEXTLINE(readability-function-size): libtorch passes each input as an argument
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& residual, const at::Tensor& weight,
                            const at::Tensor& bias, const Moments& moments, double eps, bool relu) {
    const Arguments arguments{x.detach(),
                              residual ? residual->detach() : at::Tensor(),
                              make_aligned(weight.detach()),
                              make_aligned(bias.detach()),
                              moments.mean,
                              moments.var,
                              eps,
                              relu};
    const at::Tensor y = compute(arguments);
    context->save_for_backward(
        {x, residual ? y : at::Tensor(), weight, bias, moments.mean, moments.var});
    context->saved_data["eps"] = eps;
    context->saved_data["relu"] = relu;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& y = saved[1];
    const Arguments arguments{saved[0],
                              {},
                              make_aligned(saved[2]),
                              make_aligned(saved[3]),
                              saved[4],
                              saved[5],
                              context->saved_data["eps"].toDouble(),
                              context->saved_data["relu"].toBool()};
    const at::Tensor y_grad = make_pixel_rows(gradients[0]);
    const at::Tensor weight_grad = at::empty_like(arguments.weight);
    const at::Tensor bias_grad = at::empty_like(arguments.bias);
    auto job = job_of<device::BatchNormReluBackward>(arguments);
    job.y_grad = y_grad.const_data_ptr();
    job.weight_grad = weight_grad.mutable_data_ptr<float>();
    job.bias_grad = bias_grad.mutable_data_ptr<float>();
    const at::Tensor parts =
        at::empty({device::parts_of(job), 2, job.channels}, bias_grad.options());
    job.parts = parts.mutable_data_ptr<float>();
    at::Tensor x_grad, residual_grad;
    if (context->needs_input_grad(0)) {
      x_grad = empty_pixels(arguments.x);
      job.x_grad = x_grad.mutable_data_ptr();
    }
    if (y.defined()) {
      residual_grad = empty_pixels(y);
      job.y = y.mutable_data_ptr();
      job.residual_grad = residual_grad.mutable_data_ptr();
    }
    run(job, arguments.x.device());
    return {x_grad, residual_grad, weight_grad, bias_grad, {}, {}, {}};
  }
};

/// Returns the moments of the batch, and updates the running averages as PyTorch does.
Moments batch_moments(const BatchNorm2d& norm, const at::Tensor& x) {
  const RunningAverages running = norm.count_batch(x);
  const at::TensorOptions options = norm.weight.detach().options();
  const Moments moments{at::empty({x.size(1)}, options), at::empty({x.size(1)}, options)};
  auto job = job_of<device::BatchMoments>(x);
  const at::Tensor parts = at::empty({device::parts_of(job), 3, job.channels}, options);
  job.parts = parts.mutable_data_ptr<float>();
  job.mean = moments.mean.mutable_data_ptr<float>();
  job.var = moments.var.mutable_data_ptr<float>();
  if (running.mean.defined()) {
    job.running_mean = running.mean.mutable_data_ptr<float>();
    job.running_var = running.var.mutable_data_ptr<float>();
    job.momentum = static_cast<float>(norm.options.momentum);
  }
  if (x.is_cpu()) {
    device::batch_moments_on_host(job);
  } else {
    check_launch(device::launch_batch_moments(job, device::current_stream(x.device())),
                 "batch_moments");
  }
  return moments;
}

bool needs_gradient(const at::Tensor& x) { return x.defined() && x.requires_grad(); }

bool matches(const at::Tensor& residual, const at::Tensor& x) {
  return residual.sizes() == x.sizes() && residual.scalar_type() == x.scalar_type() &&
         residual.device() == x.device() && has_pixel_rows(residual);
}

}  // namespace

bool fuses_batch_norm(const BatchNorm2d& norm, const at::Tensor& x_nchw, stage::RunMode mode,
                      const at::Tensor& residual) {
  if (!has_kernels(x_nchw) || !has_pixel_rows(x_nchw)) return false;
  if (norm.weight.scalar_type() != at::kFloat || !norm.running_mean.is_contiguous() ||
      !norm.running_var.is_contiguous())
    return false;
  if (residual.defined() && !matches(residual, x_nchw)) return false;
  if (norm.trains(mode)) return stage::batch_of_ranks().sum == nullptr;
  return !at::GradMode::is_enabled() || !(needs_gradient(x_nchw) || needs_gradient(norm.weight) ||
                                          needs_gradient(norm.bias) || needs_gradient(residual));
}

at::Tensor fused_batch_norm(const BatchNorm2d& norm, const at::Tensor& x_nchw, stage::RunMode mode,
                            const NormEpilogue& epilogue) {
  const at::Tensor& residual = epilogue.residual;
  if (!norm.trains(mode))
    return compute({x_nchw.detach(), residual.defined() ? residual.detach() : residual,
                    make_aligned(norm.weight.detach()), make_aligned(norm.bias.detach()),
                    make_aligned(norm.running_mean), make_aligned(norm.running_var),
                    norm.options.eps, epilogue.relu});
  const auto added = residual.defined() ? std::optional(residual) : std::nullopt;
  const char* name = epilogue.relu ? "trainctl::batch_norm_relu" : "trainctl::batch_norm";
  return record_operator(name, {x_nchw, norm.weight, norm.bias}, [&] {
    return BatchNormReluFunction::apply(x_nchw, added, norm.weight, norm.bias,
                                        batch_moments(norm, x_nchw), norm.options.eps,
                                        epilogue.relu);
  });
}

at::Tensor batch_norm_relu(const BatchNorm2d& norm, const at::Tensor& x_nchw, stage::RunMode mode,
                           const at::Tensor& residual) {
  if (fuses_batch_norm(norm, x_nchw, mode, residual))
    return fused_batch_norm(norm, x_nchw, mode, {.residual = residual});
  at::Tensor out = norm(x_nchw, mode);
  if (residual.defined()) out.add_(residual);
  return at::relu_(out);
}

at::Tensor batch_norm(const BatchNorm2d& norm, const at::Tensor& x_nchw, stage::RunMode mode) {
  if (!fuses_batch_norm(norm, x_nchw, mode)) return norm(x_nchw, mode);
  return fused_batch_norm(norm, x_nchw, mode, {.relu = false});
}

}  // namespace trainctl::stages
