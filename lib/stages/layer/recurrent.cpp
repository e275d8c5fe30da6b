#include "stages/model/blocks/recurrent.hpp"

#include "spec/options/layer.hpp"
#include "stages/builtin.hpp"

namespace trainctl::stages {
namespace {

Cell cell_of(const spec::layer::Rnn& options) {
  return options.nonlinearity == spec::layer::Nonlinearity::relu ? Cell::relu : Cell::tanh;
}
Cell cell_of(const spec::layer::Gru& /*options*/) { return Cell::gru; }
Cell cell_of(const spec::layer::Lstm& /*options*/) { return Cell::lstm; }

/// rnn, gru and lstm.
class RecurrentLayer final : public RecurrentModule {
 public:
  RecurrentLayer(Cell cell, const spec::layer::Recurrent& options,
                 const stage::LayerContext& context)
      : net_(Scope(*this), cell, options, context.input.shape[1]),
        output_(options.output),
        tokens_(options.packed ? context.tokens : nullptr) {}

  /// Takes [N, T, E] and returns [N, T, H], or [N, H] for the last state. Packed outputs are 0 at
  /// the padding, as those of torch's pad_packed_sequence.
  at::Tensor forward(const at::Tensor& inputs) override {
    const at::Tensor lengths =
        tokens_ ? token_lengths(tokens_->inputs, tokens_->padding_id) : at::Tensor();
    const RecurrentNet::Output output = net_(inputs, lengths, mode());
    if (output_ == spec::layer::RecurrentOutput::last) return output.last;
    if (!lengths.defined()) return output.sequence;
    const at::Tensor outside = within(lengths, inputs.size(1)).logical_not().unsqueeze(2);
    return output.sequence.masked_fill(outside, 0);  // also where states have overflowed
  }

 private:
  [[nodiscard]] const RecurrentNet& net() const override { return net_; }

  RecurrentNet net_;
  spec::layer::RecurrentOutput output_;
  std::shared_ptr<const stage::PaddedTokens> tokens_;
};

template <class Options>
void add_recurrent(stage::Catalog& catalog, const std::string& name) {
  catalog.layers.add<Options>(name, [](const Options& options, const auto& context) {
    return std::make_unique<RecurrentLayer>(cell_of(options), options, context);
  });
}

}  // namespace

void register_layer_recurrent(stage::Catalog& catalog) {
  add_recurrent<spec::layer::Rnn>(catalog, "rnn");
  add_recurrent<spec::layer::Gru>(catalog, "gru");
  add_recurrent<spec::layer::Lstm>(catalog, "lstm");
}

}  // namespace trainctl::stages
