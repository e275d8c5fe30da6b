#include "spec/experiment/weights.hpp"

#include <memory>

namespace trainctl::spec {

void Weights::describe(config::Describe<Weights>& options) {
  options
      .field("path", &Weights::path,
             "A safetensors file, or a state dict of PyTorch: .pth, .pt, .ckpt, .bin.")
      .required()
      .example("resnet18.pth");
  options
      .field("sha256", &Weights::sha256,
             "The SHA-256 of the file, 64 hex digits; another file is refused.")
      .not_empty();
  options.field("strict", &Weights::strict,
                "true: the file and the model have the same tensors; false: what only one of them "
                "has is left out, and told.");
  options
      .field("section", &Weights::section,
             "Key of the state dict in a file of PyTorch that holds several. Empty: state_dict, "
             "model, ... or the file itself.")
      .example("state_dict_ema");
  options
      .field("prefix", &Weights::prefix,
             "Takes the tensors whose names begin so, and removes it from the names.")
      .example("\"model.\"");
  options
      .field("key_map", &Weights::key_map,
             "Names in the file and what the model calls them; a name that ends with '.' stands "
             "for all that begin so.")
      .example("{\"encoder.\": \"backbone.\", head.weight: fc.weight}");
}

}  // namespace trainctl::spec

namespace trainctl::config {

const std::shared_ptr<const Schema>& Codec<spec::Weights>::schema() {
  static const auto shared = std::make_shared<const Schema>(schema_of<spec::Weights>());
  return shared;
}

FieldType Codec<spec::Weights>::type() {
  return {.type = ValueType::object,
          .item = std::make_shared<const FieldType>(Codec<std::filesystem::path>::type()),
          .accepts_one = true,
          .object = schema()};
}

void Codec<spec::Weights>::read(Reader& reader, const Node& node, const Field& field,
                                spec::Weights& out) {
  Node section = node;
  if (node.type == Node::Type::scalar) {
    section = Node::map({{"path", node.position, node}});
    section.position = node.position;
  }
  reader.object(section, *schema(), "'" + field.key + "'", &out);
}

Node Codec<spec::Weights>::write(const spec::Weights& value) {
  return write_options(*schema(), &value);
}

}  // namespace trainctl::config
