#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/recurrent.hpp"

#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>

namespace trainctl::stages {
namespace {

spec::layer::Recurrent lstm_options(const spec::model::TextLstm& options) {
  spec::layer::Recurrent lstm;
  lstm.hidden_size = options.hidden_size;
  lstm.num_layers = options.num_layers;
  // There is nothing between the layers of a single one.
  if (options.num_layers > 1) lstm.dropout = options.dropout;
  return lstm;
}

class LstmClassifier final : public RecurrentModule {
 public:
  LstmClassifier(const spec::model::LstmClassifier& options, const stage::ModelContext& context)
      : options_(options),
        padding_id_(context.kind.padding_id),
        weight_(
            (Scope(*this) / "embedding").parameter("weight", drawn_embedding(options, context))),
        lstm_(Scope(*this) / "lstm", Cell::lstm, recurrent(options, context),
              options.embedding_dim),
        linear_(make_linear(Scope(*this) / "linear",
                            options.hidden_size * (options.bidirectional ? 2 : 1),
                            context.outputs)) {}

  /// tokens: int64 [N, T]; returns logits [N, outputs].
  at::Tensor forward(const at::Tensor& tokens) override {
    const at::Tensor lengths = padding_id_ >= 0 ? token_lengths(tokens, padding_id_) : at::Tensor();
    const RecurrentNet::Output read = lstm_(at::embedding(weight_, tokens), lengths, mode());
    const bool last = options_.pooling == spec::model::Pooling::last;
    const at::Tensor pooled = last ? read.last : mean(read.sequence, lengths);
    return linear_(at::dropout(pooled, options_.dropout, training()));
  }

 private:
  static at::Tensor drawn_embedding(const spec::model::LstmClassifier& options,
                                    const stage::ModelContext& context) {
    check_input(options, context);
    return at::empty({context.kind.vocab_size, options.embedding_dim}, at::kFloat).normal_();
  }

  static spec::layer::Recurrent recurrent(const spec::model::LstmClassifier& options,
                                          const stage::ModelContext& context) {
    spec::layer::Recurrent lstm = lstm_options(options);
    lstm.bidirectional = options.bidirectional;
    lstm.packed = context.kind.padding_id >= 0;
    return lstm;
  }

  /// Returns the mean of the outputs [N, T, H] at the tokens of each text.
  static at::Tensor mean(const at::Tensor& sequence, const at::Tensor& lengths) {
    if (!lengths.defined()) return sequence.mean(1);
    const at::Tensor inside = within(lengths, sequence.size(1)).unsqueeze(2);
    return (sequence * inside).sum(1) / lengths.unsqueeze(1);
  }

  [[nodiscard]] const RecurrentNet& net() const override { return lstm_; }

  spec::model::LstmClassifier options_;
  std::int64_t padding_id_;
  at::Tensor weight_;
  RecurrentNet lstm_;
  Linear linear_;
};

/// Each sample starts from a state of zeros.
class LstmLm final : public RecurrentModule {
 public:
  LstmLm(const spec::model::LstmLm& options, const stage::ModelContext& context)
      : options_(options),
        width_(options.embedding_dim.value_or(options.hidden_size)),
        encoder_(add_table("encoder.weight", checked_outputs(options, context), width_)),
        rnn_(Scope(*this) / "rnn", Cell::lstm, lstm_options(options), width_) {
    weight_ = options.tie_weights
                  ? encoder_
                  : add_table("decoder.weight", context.outputs, options.hidden_size);
    bias_ = add_parameter("decoder.bias", at::zeros({context.outputs}, at::kFloat));
  }

  /// tokens: int64 [N, T]; returns logits [N, T, vocabulary size].
  at::Tensor forward(const at::Tensor& tokens) override {
    const at::Tensor x =
        options_.tie_weights ? embed_tied(encoder_, tokens) : at::embedding(encoder_, tokens);
    const at::Tensor read = rnn_(dropped(x), /*lengths=*/{}, mode()).sequence;
    return at::linear(dropped(read), weight_, bias_);
  }

 private:
  static std::int64_t checked_outputs(const spec::model::LstmLm& options,
                                      const stage::ModelContext& context) {
    check_input(options, context);
    return context.outputs;
  }
  at::Tensor add_table(const std::string& name, std::int64_t rows, std::int64_t columns) {
    constexpr double kBound = 0.1;  // of the example word_language_model
    return add_parameter(name, at::empty({rows, columns}, at::kFloat).uniform_(-kBound, kBound));
  }
  [[nodiscard]] at::Tensor dropped(const at::Tensor& x) const {
    return at::dropout(x, options_.dropout, training());
  }
  [[nodiscard]] const RecurrentNet& net() const override { return rnn_; }

  spec::model::LstmLm options_;
  std::int64_t width_;
  at::Tensor encoder_;
  RecurrentNet rnn_;
  at::Tensor weight_, bias_;  // of the output layer
};

}  // namespace

void register_model_lstm(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::LstmClassifier, LstmClassifier>("lstm_classifier");
  catalog.models.add_class<spec::model::LstmLm, LstmLm>("lstm_lm");
}

}  // namespace trainctl::stages
