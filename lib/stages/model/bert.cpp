#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/fused_blocks.hpp"
#include "stages/model/blocks/layers.hpp"
#include "stages/model/blocks/recurrent.hpp"
#include "stages/model/blocks/transformer_blocks.hpp"

#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace trainctl::stages {
namespace {

constexpr double kBertDeviation = 0.02;
constexpr double kBertEps = 1e-12;

at::Tensor add_weight(const Scope& scope, std::int64_t rows, std::int64_t columns) {
  const at::Tensor tensor = at::empty({rows, columns}, at::kFloat);
  redraw_normal(tensor, kBertDeviation);
  return scope.parameter("weight", tensor);
}

Linear make_bert_linear(const Scope& scope, std::int64_t in, std::int64_t out) {
  Linear layer;
  layer.weight = add_weight(scope, out, in);
  layer.bias = scope.parameter("bias", at::zeros({out}, at::kFloat));
  return layer;
}

struct BertBlock {
  Linear query, key, value;
  Linear attended;
  LayerNorm attention_norm;
  Linear widen;
  Linear narrow;
  LayerNorm output_norm;
  std::int64_t heads = 1;
  double dropout = 0;
  bool norm_first = false;

  /// x: [N, T, width]; keys: bool [N, T], the positions that are not padding, or undefined.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, const at::Tensor& keys,
                                      stage::RunMode mode) const {
    const double p = mode == stage::RunMode::train ? dropout : 0;
    const auto dropped = [&](const at::Tensor& branch) { return at::dropout(branch, p, p > 0); };
    const auto attend = [&](const at::Tensor& in) {
      return dropped(attended(attention({query(in), key(in), value(in)},
                                        {.heads = heads, .dropout = p, .keys = keys})));
    };
    const auto feed = [&](const at::Tensor& in) { return dropped(narrow(linear_gelu(widen, in))); };
    if (norm_first) {
      const at::Tensor y = x + attend(attention_norm(x));
      return y + feed(output_norm(y));
    }
    const at::Tensor y = attention_norm(x + attend(x));
    return output_norm(y + feed(y));
  }
};

BertBlock make_bert_block(const Scope& scope, const spec::model::Bert& options) {
  const std::int64_t width = options.width;
  const Scope self = scope / "attention" / "self";
  const Scope output = scope / "attention" / "output";
  BertBlock block;
  block.query = make_bert_linear(self / "query", width, width);
  block.key = make_bert_linear(self / "key", width, width);
  block.value = make_bert_linear(self / "value", width, width);
  block.attended = make_bert_linear(output / "dense", width, width);
  block.attention_norm = make_layer_norm(output / "LayerNorm", {width}, kBertEps);
  block.widen = make_bert_linear(scope / "intermediate" / "dense", width, 4 * width);
  block.narrow = make_bert_linear(scope / "output" / "dense", 4 * width, width);
  block.output_norm = make_layer_norm(scope / "output" / "LayerNorm", {width}, kBertEps);
  block.heads = options.heads;
  block.dropout = options.dropout;
  block.norm_first = options.norm_first;
  return block;
}

/// The names are those of Hugging Face's BertForMaskedLM and BertForSequenceClassification. Weights
/// are initialized in the order of the names. All tokens are of the first segment.
class Bert final : public LayeredModule {
 public:
  Bert(const spec::model::Bert& options, const stage::ModelContext& context)
      : dropout_(options.dropout),
        padding_id_(context.kind.padding_id),
        predicts_tokens_(context.kind.targets == spec::Targets::tokens) {
    check_input(options, context);
    const std::int64_t vocabulary = predicts_tokens_ ? context.outputs : context.kind.vocab_size;
    const Scope bert = Scope(*this) / "bert";
    const Scope embeddings = bert / "embeddings";
    constexpr std::int64_t kSegments = 2;
    words_ = add_weight(embeddings / "word_embeddings", vocabulary, options.width);
    positions_ = add_weight(embeddings / "position_embeddings", options.context, options.width);
    segments_ = add_weight(embeddings / "token_type_embeddings", kSegments, options.width);
    embedding_norm_ = make_layer_norm(embeddings / "LayerNorm", {options.width}, kBertEps);
    for (std::size_t i = 0; i < static_cast<std::size_t>(options.layers); ++i)
      blocks_.push_back(make_bert_block(bert / "encoder" / "layer" / i, options));
    if (options.norm_first)
      final_norm_ = make_layer_norm(bert / "encoder" / "LayerNorm", {options.width}, kBertEps);
    if (predicts_tokens_) {
      const Scope predictions = Scope(*this) / "cls" / "predictions";
      bias_ = predictions.parameter("bias", at::zeros({vocabulary}, at::kFloat));
      const Scope transform = predictions / "transform";
      dense_ = make_bert_linear(transform / "dense", options.width, options.width);
      head_norm_ = make_layer_norm(transform / "LayerNorm", {options.width}, kBertEps);
    } else {
      dense_ = make_bert_linear(bert / "pooler" / "dense", options.width, options.width);
      classifier_ = make_bert_linear(Scope(*this) / "classifier", options.width, context.outputs);
    }
  }

  /// tokens: int64 [N, T]; returns logits [N, T, vocabulary size] or, for classes, [N, outputs],
  /// from the output at the first token.
  at::Tensor forward(const at::Tensor& tokens) override {
    const at::Tensor x = encoded(tokens);
    if (predicts_tokens_) return at::linear(head_norm_(linear_gelu(dense_, x)), words_, bias_);
    return classifier_(dropped(at::tanh(dense_(x.select(1, 0)))));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  /// Returns the output of the encoder, [N, T, width].
  [[nodiscard]] at::Tensor encoded(const at::Tensor& tokens) const {
    const std::int64_t length = tokens.size(1);
    const at::Tensor words =
        predicts_tokens_ ? embed_tied(words_, tokens) : at::embedding(words_, tokens);
    const at::Tensor places = positions_.narrow(0, 0, length) + segments_.select(0, 0);
    at::Tensor x = dropped(embedding_norm_(words + places));
    at::Tensor keys;
    if (padding_id_ >= 0) keys = within(token_lengths(tokens, padding_id_), length);
    for (const BertBlock& block : blocks_) {
      x = checkpointed(
          [&block, keys, mode = mode()](const at::Tensor& in) { return block(in, keys, mode); }, x);
    }
    return final_norm_.weight.defined() ? final_norm_(x) : x;
  }
  [[nodiscard]] at::Tensor dropped(const at::Tensor& x) const {
    return at::dropout(x, dropout_, training());
  }

  double dropout_;
  std::int64_t padding_id_;
  bool predicts_tokens_;
  at::Tensor words_, positions_, segments_;
  LayerNorm embedding_norm_;
  std::vector<BertBlock> blocks_;
  LayerNorm final_norm_;  // only with norm_first
  Linear dense_;          // of the head
  LayerNorm head_norm_;   // of the head for tokens
  at::Tensor bias_;
  Linear classifier_;
};

}  // namespace

void register_model_bert(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::Bert, Bert>("bert");
}

}  // namespace trainctl::stages
