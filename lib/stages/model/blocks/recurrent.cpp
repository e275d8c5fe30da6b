#include "stages/model/blocks/recurrent.hpp"

#include "base/error.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/_use_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/rnn_relu.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>

namespace trainctl::stages {
namespace {

constexpr bool kBatchFirst = true;

std::int64_t gates(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

at::Tensor positions_like(const at::Tensor& lengths, std::int64_t positions) {
  return at::arange(positions, lengths.options());
}

/// Returns the vectors of x [N, T, E] at the positions int64 [N, P], as [N, P, E].
at::Tensor at_positions(const at::Tensor& x, const at::Tensor& positions) {
  return x.gather(1, positions.unsqueeze(2).expand({-1, -1, x.size(2)}));
}

/// Returns, for each position, the one that replaces it if each row is reversed within its length.
at::Tensor reversed(const at::Tensor& lengths, std::int64_t positions) {
  const at::Tensor forward = positions_like(lengths, positions);
  const at::Tensor backward = lengths.unsqueeze(1) - 1 - forward;
  return at::where(backward.ge(0), backward, forward);
}

}  // namespace

at::Tensor token_lengths(const at::Tensor& tokens, std::int64_t padding_id) {
  const at::Tensor counted = positions_like(tokens, tokens.size(1)) + 1;
  return tokens.ne(padding_id).mul(counted).amax(1).clamp_min(1);
}

at::Tensor within(const at::Tensor& lengths, std::int64_t positions) {
  return positions_like(lengths, positions).lt(lengths.unsqueeze(1));
}

RecurrentNet::RecurrentNet(const Scope& scope, Cell cell, const spec::layer::Recurrent& options,
                           std::int64_t features)
    : cell_(cell), options_(options), splits_(options.packed && options.bidirectional) {
  // cuDNN's generator for dropout is in no checkpoint, so that dropout between layers is ours.
  const bool separate = splits_ || options.dropout > 0;
  depth_ = separate ? 1 : options.num_layers;
  stacks_.resize(static_cast<std::size_t>(separate ? options.num_layers : 1));
  const std::int64_t width = options.directions() * options.hidden_size;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    Stack& stack = stacks_[static_cast<std::size_t>(layer / depth_)];
    const std::int64_t inputs = layer == 0 ? features : width;
    if (stack.operands.empty()) stack = {std::vector<Weights>(splits_ ? 2 : 1), inputs};
    add_layer(scope, stack.operands.front(), fmt::format("l{}", layer), inputs);
    if (options.bidirectional)
      add_layer(scope, stack.operands.back(), fmt::format("l{}_reverse", layer), inputs);
  }
}

void RecurrentNet::add_layer(const Scope& scope, Weights& weights, const std::string& suffix,
                             std::int64_t inputs) const {
  const double bound = 1 / std::sqrt(static_cast<double>(options_.hidden_size));
  const auto add = [&](const std::string& name, at::IntArrayRef shape) {
    weights.push_back(
        scope.parameter(name + suffix, at::empty(shape, at::kFloat).uniform_(-bound, bound)));
  };
  const std::int64_t rows = gates(cell_) * options_.hidden_size;
  add("weight_ih_", {rows, inputs});
  add("weight_hh_", {rows, options_.hidden_size});
  if (!options_.bias) return;
  add("bias_ih_", {rows});
  add("bias_hh_", {rows});
}

RecurrentNet::Output RecurrentNet::operator()(const at::Tensor& inputs, const at::Tensor& lengths,
                                              stage::RunMode mode) const {
  ASSERT(lengths.defined() == options_.packed);
  // On a CPU, autocast does not convert the weights to the type of 16-bit inputs.
  const at::ScalarType type = stacks_[0].operands[0][0].scalar_type();
  Output output{inputs.is_cpu() ? inputs.to(type) : inputs, {}};
  for (std::size_t i = 0; i < stacks_.size(); ++i) {
    at::Tensor& x = output.sequence;
    if (i > 0) x = at::dropout(x, options_.dropout, mode == stage::RunMode::train);
    output = splits_ ? run_both(stacks_[i], x, lengths, mode)
                     : run(stacks_[i].operands[0], x, lengths, mode);
  }
  return output;
}

RecurrentNet::Output RecurrentNet::run(const Weights& weights, const at::Tensor& x,
                                       const at::Tensor& lengths, stage::RunMode mode) const {
  const std::int64_t directions = splits_ ? 1 : options_.directions();
  const at::Tensor zeros =
      at::zeros({depth_ * directions, x.size(0), options_.hidden_size}, x.options());
  const auto with = [&](auto function, const auto& state) {
    return function(x, state, weights, options_.bias, depth_, /*dropout=*/0.0,
                    mode == stage::RunMode::train, directions == 2, kBatchFirst);
  };
  Output output;
  const auto set = [&](const at::Tensor& sequence, const at::Tensor& states) {
    output.sequence = sequence;
    // The output of a position is its state, so that the state after the last token is an output.
    output.last =
        lengths.defined()
            ? at_positions(sequence, lengths.unsqueeze(1) - 1).squeeze(1)
            : states.narrow(0, states.size(0) - directions, directions).transpose(0, 1).flatten(1);
  };
  const auto run_cell = [&](auto function) {
    const auto [sequence, states] = with(function, zeros);
    set(sequence, states);
  };
  switch (cell_) {
    case Cell::relu: run_cell([](auto&&... all) { return at::rnn_relu(all...); }); break;
    case Cell::tanh: run_cell([](auto&&... all) { return at::rnn_tanh(all...); }); break;
    case Cell::gru: run_cell([](auto&&... all) { return at::gru(all...); }); break;
    case Cell::lstm: {
      const std::vector<at::Tensor> hidden_and_cell{zeros, zeros};
      const auto [sequence, states, cells] =
          with([](auto&&... all) { return at::lstm(all...); }, hidden_and_cell);
      set(sequence, states);
    }
  }
  return output;
}

RecurrentNet::Output RecurrentNet::run_both(const Stack& stack, const at::Tensor& x,
                                            const at::Tensor& lengths, stage::RunMode mode) const {
  const at::Tensor order = reversed(lengths, x.size(1));
  const Output forward = run(stack.operands[0], x, lengths, mode);
  const Output backward = run(stack.operands[1], at_positions(x, order), lengths, mode);
  const at::Tensor reordered = at_positions(backward.sequence, order);
  return {at::cat({forward.sequence, reordered}, 2), at::cat({forward.last, backward.last}, 1)};
}

void RecurrentNet::flatten_weights() const {
  if (!stacks_[0].operands[0][0].is_cuda() || !at::_use_cudnn_rnn_flatten_weight()) return;
  const at::NoGradGuard guard;
  for (const Stack& stack : stacks_) {
    for (const Weights& weights : stack.operands) {
      at::_cudnn_rnn_flatten_weight(weights, options_.bias ? 4 : 2, stack.features,
                                    static_cast<std::int64_t>(cell_), options_.hidden_size,
                                    /*proj_size=*/0, depth_, kBatchFirst,
                                    options_.bidirectional && !splits_);
    }
  }
}

}  // namespace trainctl::stages
