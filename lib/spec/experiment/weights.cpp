#include "spec/experiment/weights.hpp"

#include <memory>

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
