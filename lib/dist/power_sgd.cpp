#include "dist/power_sgd.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace trainctl::dist {
namespace {

/// The shape of a parameter viewed as a matrix: its first dimension, and all others.
struct Shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

Shape shape_of(const at::Tensor& parameter) {
  if (parameter.dim() < 2 || parameter.numel() == 0) return {};
  return {parameter.size(0), parameter.numel() / parameter.size(0)};
}

/// Draws values that are the same on every rank and in every run: they need not depend on the seed.
at::Tensor drawn(const std::string& name, at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Generator generator = at::detail::createCPUGenerator(
      hash_bytes(std::as_bytes(std::span(name.data(), name.size()))));
  return at::randn(sizes, generator, at::TensorOptions(at::kFloat)).to(options);
}

}  // namespace

void orthonormalize(const at::Tensor& matrix) {
  constexpr double kNoise = 1e-5;  // relative to the column's norm: rounding of a dependent one
  constexpr double kTiny = 1e-30;  // its inverse is still finite
  const at::NoGradGuard guard;
  for (std::int64_t k = 0; k < matrix.size(1); ++k) {
    const at::Tensor column = matrix.narrow(1, k, 1);
    const at::Tensor before = at::linalg_vector_norm(column);
    const at::Tensor basis = matrix.narrow(1, 0, k);
    for (int time = 0; time < 2 && k > 0; ++time) column.sub_(basis.mm(basis.t().mm(column)));
    const at::Tensor length = at::linalg_vector_norm(column);
    const at::Tensor counts = length.gt(before * kNoise).logical_and(length.gt(kTiny));
    column.copy_(at::where(counts, column / length, 0));
  }
}

PowerSgdBucket::PowerSgdBucket(const std::vector<SyncParameter>& parameters, std::int64_t rank) {
  ASSERT(!parameters.empty());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    const Shape shape = shape_of(tensor);
    const bool pays = 2 * rank * (shape.rows + shape.columns) < shape.rows * shape.columns;
    if (!pays) {
      others_.push_back({i, tensor.numel(), {}});
      continue;
    }
    const at::TensorOptions options = tensor.options().requires_grad(false);
    const at::Tensor start = drawn(name, {shape.columns, rank}, options);
    matrices_.push_back({.index = i,
                         .name = name,
                         .start = start,
                         .q = start.clone(),
                         .error = at::zeros({shape.rows, shape.columns}, options),
                         .m = {},
                         .p = {},
                         .next_q = {}});
  }
  place_views(parameters.front().tensor.options().requires_grad(false));
}

void PowerSgdBucket::place_views(at::TensorOptions options) {
  std::int64_t first = 0, second = 0;
  for (const Matrix& matrix : matrices_) {
    first += matrix.error.size(0) * matrix.q.size(1);
    second += matrix.q.numel();
  }
  for (const Other& other : others_) first += other.size;
  first_ = at::zeros({std::max<std::int64_t>(first, 1)}, options);
  second_ = at::zeros({second}, options);
  std::int64_t at_first = 0, at_second = 0;
  for (Matrix& matrix : matrices_) {
    const std::int64_t rows = matrix.error.size(0), rank = matrix.q.size(1);
    matrix.p = first_.narrow(0, at_first, rows * rank).view({rows, rank});
    matrix.next_q = second_.narrow(0, at_second, matrix.q.numel()).view(matrix.q.sizes());
    at_first += rows * rank;
    at_second += matrix.q.numel();
  }
  for (Other& other : others_) {
    other.exchanged = first_.narrow(0, at_first, other.size);
    at_first += other.size;
  }
}

at::Tensor PowerSgdBucket::first(std::vector<at::Tensor> gradients, int world_size) {
  const at::NoGradGuard guard;
  ASSERT(gradients.size() == matrices_.size() + others_.size());
  gradients_ = std::move(gradients);
  for (Matrix& matrix : matrices_) {
    // Uses the order of indices, not that of memory, which may differ in a resumed run.
    const at::Tensor& gradient = gradients_[matrix.index];
    matrix.m = gradient.reshape({gradient.size(0), -1});
    matrix.m.add_(matrix.error);
    const at::Tensor is_zero = at::linalg_vector_norm(matrix.q, 2, at::IntArrayRef{0}, true).eq(0);
    const at::Tensor q = at::where(is_zero, matrix.start, matrix.q);
    orthonormalize(q);
    at::mm_out(matrix.p, matrix.m, q);
  }
  for (const Other& other : others_) other.exchanged.copy_(gradients_[other.index].flatten());
  return first_.div_(world_size);
}

at::Tensor PowerSgdBucket::second(int world_size) {
  const at::NoGradGuard guard;
  sound_ = first_.isfinite().all();  // orthonormalizing non-finite values gives non-finite values
  for (Matrix& matrix : matrices_) {
    orthonormalize(matrix.p);
    at::mm_out(matrix.next_q, matrix.m.t(), matrix.p);
  }
  return second_.div_(world_size);
}

at::Tensor PowerSgdBucket::sound() const {
  const at::NoGradGuard guard;
  return sound_.logical_and(second_.isfinite().all());
}

void PowerSgdBucket::finish(const at::Tensor& sound) {
  const at::NoGradGuard guard;
  for (const Other& other : others_) {
    const at::Tensor& gradient = gradients_[other.index];
    gradient.copy_(other.exchanged.view(gradient.sizes()));
  }
  constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor nan_if_not_finite =
      at::where(sound, at::zeros({}, first_.options()), kNotFinite);
  for (Matrix& matrix : matrices_) {
    const at::Tensor& gradient = gradients_[matrix.index];
    const at::Tensor average = at::mm(matrix.p, matrix.next_q.t());
    matrix.error.copy_(at::where(sound, matrix.m - average, matrix.error));
    matrix.q.copy_(at::where(sound, matrix.next_q, matrix.q));
    gradient.copy_(average.add_(nan_if_not_finite).view(gradient.sizes()));
    matrix.m.reset();
  }
  gradients_.clear();  // views would keep the bucket alive
}

void PowerSgdBucket::add_state(std::vector<SyncTensor>& all) const {
  for (const Matrix& matrix : matrices_) {
    all.push_back({matrix.name + ".q", matrix.q, /*of_rank=*/false});
    all.push_back({matrix.name + ".error", matrix.error, /*of_rank=*/true});
  }
}

std::int64_t PowerSgdBucket::sent_bytes() const {
  return static_cast<std::int64_t>(first_.nbytes() + second_.nbytes());
}

}  // namespace trainctl::dist
