#include "stages/model/blocks/fused_blocks.hpp"

#include "device/device.hpp"
#include "device/kernels.hpp"
#include "stages/kernel_calls.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace trainctl::stages {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::int64_t rows_of(const at::Tensor& x) { return x.numel() / x.size(-1); }

void run(const device::AddNorm& job, at::Device on) {
  if (on.is_cpu()) return device::add_norm_on_host(job);
  check_launch(device::launch_add_norm(job, device::current_stream(on)), "add_norm");
}

void run(const device::AddNormBackward& job, at::Device on) {
  if (on.is_cpu()) return device::add_norm_backward_on_host(job);
  check_launch(device::launch_add_norm_backward(job, device::current_stream(on)),
               "add_norm_backward");
}

void run(const device::BiasGelu& job, at::Device on) {
  if (on.is_cpu()) return device::bias_gelu_on_host(job);
  check_launch(device::launch_bias_gelu(job, device::current_stream(on)), "bias_gelu");
}

struct NormedWithStats {
  at::Tensor sum, normed, stats;
};

NormedWithStats compute(const LayerNorm& norm, const Residual& residual, at::ScalarType out) {
  const at::Tensor x = make_aligned(residual.x.detach());
  const at::Tensor branch =
      residual.branch.defined() ? make_aligned(residual.branch.detach()) : at::Tensor();
  const at::Tensor weight = make_aligned(norm.weight.detach());
  const at::Tensor bias = make_aligned(norm.bias.detach());
  NormedWithStats result;
  result.sum = branch.defined() ? at::empty_like(x) : x;
  result.normed = at::empty(x.sizes(), x.options().dtype(out));
  device::AddNorm job;
  job.x = x.const_data_ptr<float>();
  job.type = element_of(result.normed);
  job.weight = weight.const_data_ptr<float>();
  job.bias = bias.const_data_ptr<float>();
  job.rows = rows_of(x);
  job.width = x.size(-1);
  job.eps = static_cast<float>(norm.eps);
  job.normed = result.normed.mutable_data_ptr();
  result.stats = at::empty({job.rows, 2}, x.options());
  job.stats = result.stats.mutable_data_ptr<float>();
  if (branch.defined()) {
    job.branch = branch.const_data_ptr();
    job.sum = result.sum.mutable_data_ptr<float>();
  }
  run(job, x.device());
  return result;
}

struct AddNormFunction : torch::autograd::Function<AddNormFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const std::optional<at::Tensor>& branch, const at::Tensor& weight,
                               const at::Tensor& bias, double eps, at::ScalarType out) {
    const Residual residual{x, branch.value_or(at::Tensor())};
    const NormedWithStats result = compute({weight, bias, eps}, residual, out);
    context->set_materialize_grads(false);
    context->save_for_backward({result.sum, result.stats, weight});
    context->saved_data["adds"] = branch.has_value();
    return {result.sum, result.normed};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const variable_list saved = context->get_saved_variables();
    const bool adds = context->saved_data["adds"].toBool();
    const at::Tensor none;
    const at::Tensor sum_grad = gradients[0].defined() ? make_aligned(gradients[0]) : none;
    if (!gradients[1].defined()) return {sum_grad, adds ? sum_grad : none, none, none, none, none};
    const at::Tensor normed = make_aligned(gradients[1]);
    const at::Tensor weight = make_aligned(saved[2]);
    device::AddNormBackward job;
    job.normed = normed.const_data_ptr();
    job.type = element_of(normed);
    if (sum_grad.defined()) job.sum_grad = sum_grad.const_data_ptr<float>();
    job.sum = saved[0].const_data_ptr<float>();
    job.stats = saved[1].const_data_ptr<float>();
    job.weight = weight.const_data_ptr<float>();
    job.rows = rows_of(saved[0]);
    job.width = weight.size(0);
    const at::Tensor x_grad = at::empty_like(saved[0]);
    const bool narrows = adds && job.type != device::Element::float32;
    const at::Tensor branch_grad = narrows ? at::empty_like(normed) : adds ? x_grad : none;
    const at::Tensor weight_grad = at::empty_like(weight);
    const at::Tensor bias_grad = at::empty_like(weight);
    const at::Tensor parts =
        at::empty({device::parts_of(job.rows), 2, job.width}, weight.options());
    job.x = x_grad.mutable_data_ptr<float>();
    if (narrows) job.branch = branch_grad.mutable_data_ptr();
    job.parts = parts.mutable_data_ptr<float>();
    job.weight_grad = weight_grad.mutable_data_ptr<float>();
    job.bias_grad = bias_grad.mutable_data_ptr<float>();
    run(job, saved[0].device());
    return {x_grad, branch_grad, weight_grad, bias_grad, none, none};
  }
};

at::Tensor compute(const at::Tensor& x, const at::Tensor& bias, bool tanh) {
  at::Tensor out = at::empty_like(x);
  device::BiasGelu job;
  job.x = x.const_data_ptr();
  job.type = element_of(x);
  job.bias = bias.const_data_ptr<float>();
  job.rows = rows_of(x);
  job.width = x.size(-1);
  job.tanh = tanh;
  job.out = out.mutable_data_ptr();
  run(job, x.device());
  return out;
}

struct BiasGeluFunction : torch::autograd::Function<BiasGeluFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& bias,
                            bool tanh) {
    const at::Tensor dense = make_aligned(x.detach());
    const at::Tensor shift = make_aligned(bias.detach());
    context->save_for_backward({dense, shift});
    context->saved_data["tanh"] = tanh;
    return compute(dense, shift, tanh);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = make_aligned(gradients[0]);
    const at::Tensor x_grad = at::empty_like(saved[0]);
    const at::Tensor bias_grad = at::empty_like(saved[1]);
    device::BiasGelu job;
    job.x = saved[0].const_data_ptr();
    job.type = element_of(saved[0]);
    job.bias = saved[1].const_data_ptr<float>();
    job.rows = rows_of(saved[0]);
    job.width = saved[0].size(-1);
    job.tanh = context->saved_data["tanh"].toBool();
    job.gradient = gradient.const_data_ptr();
    job.out = x_grad.mutable_data_ptr();
    const at::Tensor parts =
        at::empty({device::gelu_parts(job.width, job.rows), job.width}, saved[1].options());
    job.parts = parts.mutable_data_ptr<float>();
    job.bias_grad = bias_grad.mutable_data_ptr<float>();
    run(job, saved[0].device());
    return {x_grad, bias_grad, at::Tensor()};
  }
};

constexpr std::int64_t kColumns = 8;  // a multiple of these is fast

/// Returns whether no other tensor sees the memory of x. A view keeps the tensor that it was made
/// from.
bool is_only_user(const at::Tensor& x) {
  if (!x.is_view()) return x.storage().use_count() == 1;
  return x.storage().use_count() == 2 && x._base().use_count() == 1;
}

struct PaddedLinear : torch::autograd::Function<PaddedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            at::ScalarType compute) {
    const std::int64_t outputs = weight.size(0);
    const std::int64_t all = (outputs + kColumns - 1) / kColumns * kColumns;
    const at::Tensor wide = at::empty({all, weight.size(1)}, weight.options().dtype(compute));
    wide.narrow(0, 0, outputs).copy_(weight);
    wide.narrow(0, outputs, all - outputs).zero_();
    const at::Tensor rows = x.to(compute);
    context->save_for_backward({rows, wide});
    context->saved_data["outputs"] = outputs;
    return at::mm(rows, wide.t()).narrow(1, 0, outputs).detach();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = pad_columns(gradients[0], saved[1].size(0));
    const std::int64_t outputs = context->saved_data["outputs"].toInt();
    return {at::mm(gradient, saved[1]), at::mm(gradient.t(), saved[0]).narrow(0, 0, outputs),
            at::Tensor()};
  }
};

/// Returns the type in which autocast runs the next linear layer on a GPU.
at::ScalarType compute_type(const at::Tensor& x) {
  return at::autocast::is_autocast_enabled(at::kCUDA) ? at::autocast::get_autocast_dtype(at::kCUDA)
                                                      : x.scalar_type();
}

}  // namespace

bool fuses_add_norm(const LayerNorm& norm, const Residual& residual, at::ScalarType out) {
  const auto& [x, branch] = residual;
  return has_kernels(x) && x.scalar_type() == at::kFloat && norm.weight.dim() == 1 &&
         norm.weight.scalar_type() == at::kFloat && norm.weight.size(0) == x.size(-1) &&
         x.size(-1) % device::kQuad == 0 && x.size(-1) <= device::kMaxNorm &&
         (!branch.defined() || (branch.scalar_type() == out && branch.sizes() == x.sizes()));
}

Normed fused_add_norm(const LayerNorm& norm, const Residual& residual, at::ScalarType out) {
  const auto& [x, branch] = residual;
  const bool differentiates =
      at::GradMode::is_enabled() && (x.requires_grad() || norm.weight.requires_grad() ||
                                     (branch.defined() && branch.requires_grad()));
  if (!differentiates) {
    const NormedWithStats result = compute(norm, residual, out);
    return {branch.defined() ? result.sum : x, result.normed};
  }
  const std::optional<at::Tensor> added = branch.defined() ? std::optional(branch) : std::nullopt;
  const at::Tensor& input = x;
  const variable_list results = record_operator(
      "trainctl::add_norm", {input, norm.weight, norm.bias},
      [&] { return AddNormFunction::apply(input, added, norm.weight, norm.bias, norm.eps, out); });
  return {results[0], results[1]};
}

Normed add_norm(const LayerNorm& norm, const Residual& residual) {
  const at::ScalarType out = compute_type(residual.x);
  if (fuses_add_norm(norm, residual, out)) return fused_add_norm(norm, residual, out);
  const at::Tensor sum = residual.sum();
  return {sum, norm(sum)};
}

bool fuses_bias_gelu(const at::Tensor& x, const at::Tensor& bias) {
  return has_kernels(x) && bias.defined() && bias.scalar_type() == at::kFloat && bias.dim() == 1 &&
         bias.size(0) % 8 == 0;
}

at::Tensor fused_bias_gelu(const at::Tensor& x, const at::Tensor& bias, Gelu approximation) {
  const bool tanh = approximation == Gelu::tanh;
  if (!at::GradMode::is_enabled() || !(x.requires_grad() || bias.requires_grad()))
    return compute(make_aligned(x.detach()), make_aligned(bias.detach()), tanh);
  return record_operator("trainctl::bias_gelu", {x, bias},
                         [&] { return BiasGeluFunction::apply(x, bias, tanh); });
}

at::Tensor pad_columns(const at::Tensor& x, std::int64_t columns) {
  const std::int64_t rows = x.size(0);
  const auto bytes = static_cast<std::size_t>(rows * columns) * x.element_size();
  const bool fits = x.stride(0) == columns && x.stride(1) == 1 && x.storage_offset() == 0 &&
                    x.storage().nbytes() == bytes && is_only_user(x);
  const at::Tensor all =
      fits ? x.as_strided({rows, columns}, {columns, 1}) : at::empty({rows, columns}, x.options());
  if (!fits) all.narrow(1, 0, x.size(1)).copy_(x);
  all.narrow(1, x.size(1), columns - x.size(1)).zero_();
  return all;
}

at::Tensor padded_linear(const at::Tensor& x, const at::Tensor& weight, at::ScalarType compute) {
  const at::Tensor rows = x.flatten(0, -2);
  const at::Tensor result = record_operator("trainctl::padded_linear", {rows, weight}, [&] {
    return PaddedLinear::apply(rows, weight, compute);
  });
  return result.unflatten(0, x.sizes().slice(0, static_cast<std::size_t>(x.dim()) - 1));
}

at::Tensor output_layer(const at::Tensor& x, const at::Tensor& weight) {
  const at::ScalarType compute = compute_type(x);
  const bool pads = has_kernels(x) && compute != at::kFloat && weight.size(0) % kColumns != 0;
  return pads ? padded_linear(x, weight, compute) : at::linear(x, weight);
}

at::Tensor linear_gelu(const Linear& layer, const at::Tensor& x) {
  if (!fuses_bias_gelu(x, layer.bias)) return at::gelu(layer(x));
  return fused_bias_gelu(at::linear(x, layer.weight), layer.bias, Gelu::erf);
}

}  // namespace trainctl::stages
