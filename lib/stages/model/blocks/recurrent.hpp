#pragma once

#include "spec/options/sequence_layer.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

// Recurrent networks, and the lengths of texts that are padded to one length.

namespace trainctl::stages {

/// Returns the number of tokens before the padding at the end of each row of int64 [N, T], as int64
/// [N]. A row of only padding has the length 1, because no network reads an empty sequence.
at::Tensor token_lengths(const at::Tensor& tokens, std::int64_t padding_id);

/// Returns which positions of sequences of these lengths are not padding: bool [N, T].
at::Tensor within(const at::Tensor& lengths, std::int64_t positions);

/// The numbers are those of cudnnRNNMode_t.
enum class Cell { relu = 0, tanh = 1, lstm = 2, gru = 3 };

/// torch's RNN, GRU or LSTM with batch_first and an initial state of zeros.
class RecurrentNet {
 public:
  struct Output {
    at::Tensor sequence;  // [N, T, H] of the top layer; undetermined after the length of a row
    at::Tensor last;      // [N, H]: the final states of the top layer in all directions
  };

  /// Creates the parameters with torch's names and initial values, for inputs of `features`.
  RecurrentNet(const Scope& scope, Cell cell, const spec::layer::Recurrent& options,
               std::int64_t features);

  /// Reads [N, T, features]. With `lengths`, int64 [N], it reads only the first positions of each
  /// row, as if the rows were packed with torch's pack_padded_sequence; the options must have said
  /// `packed`. Without (an undefined tensor), all rows have the length T.
  [[nodiscard]] Output operator()(const at::Tensor& inputs, const at::Tensor& lengths,
                                  stage::RunMode mode) const;

  /// Must be called after the parameters were moved to another device: cuDNN reads all weights from
  /// one buffer, to which it would otherwise copy them in each step.
  void flatten_weights() const;

 private:
  using Weights = std::vector<at::Tensor>;

  /// Stacked layers. Each of `operands` holds the weights that one operator uses: for both
  /// directions, or, if rows of different lengths are read backward, for one direction.
  struct Stack {
    std::vector<Weights> operands;
    std::int64_t features = 0;
  };

  void add_layer(const Scope& scope, Weights& weights, const std::string& suffix,
                 std::int64_t inputs) const;
  [[nodiscard]] Output run(const Weights& weights, const at::Tensor& x, const at::Tensor& lengths,
                           stage::RunMode mode) const;
  [[nodiscard]] Output run_both(const Stack& stack, const at::Tensor& x, const at::Tensor& lengths,
                                stage::RunMode mode) const;

  Cell cell_;
  spec::layer::Recurrent options_;
  bool splits_ = false;     // whether each direction has its own operator
  std::int64_t depth_ = 1;  // layers of a stack
  std::vector<Stack> stacks_;
};

/// A layer that contains a RecurrentNet.
class RecurrentModule : public LayeredModule {
 public:
  void to(at::Device device) override {
    LayeredModule::to(device);
    net().flatten_weights();
  }

 protected:
  [[nodiscard]] virtual const RecurrentNet& net() const = 0;
};

}  // namespace trainctl::stages
