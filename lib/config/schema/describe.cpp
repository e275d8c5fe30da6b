#include "config/schema/describe.hpp"

#include <utility>

namespace trainctl::config {

Field& FieldList::append(std::string_view key, const Rules& rules, std::string_view help,
                         FieldType type) {
  Field& field = schema_.fields.emplace_back();
  field.key = key;
  field.help = help;
  field.example = rules.example;
  field.type = std::move(type);
  field.required = rules.required;
  field.not_empty = rules.not_empty;
  field.allows_non_finite = rules.allows_non_finite;
  if (rules.above) field.minimum = {*rules.above, /*inclusive=*/false};
  if (rules.at_least) field.minimum = {*rules.at_least, /*inclusive=*/true};
  if (rules.below) field.maximum = {*rules.below, /*inclusive=*/false};
  if (rules.at_most) field.maximum = {*rules.at_most, /*inclusive=*/true};
  return field;
}

void FieldList::set_stage(Field& field, std::size_t offset) {
  field.read = [offset, kind = field.type.stage_kind](Reader& reader, const Node& node,
                                                      const Field& self, void* options) {
    reader.stage(node, self, kind, *static_cast<Stage*>(at(options, offset)));
  };
  field.write = [offset](const void* options) {
    return write_stage(*static_cast<const Stage*>(at(options, offset)));
  };
}

void FieldList::add_stage(std::string_view key, std::size_t offset, const std::string& kind,
                          const Rules& rules, std::string_view help) {
  set_stage(append(key, rules, help, {.type = ValueType::stage, .stage_kind = kind}), offset);
}

void FieldList::add_stages(std::string_view key, std::size_t offset, const std::string& kind,
                           const Rules& rules, std::string_view help) {
  FieldType item{.type = ValueType::stage, .stage_kind = kind};
  Field& field =
      append(key, rules, help,
             {.type = ValueType::list, .item = std::make_shared<const FieldType>(std::move(item))});
  field.read = [offset, kind](Reader& reader, const Node& node, const Field& self, void* options) {
    if (!reader.expect_list(node, self, 0)) return;
    auto& list = *static_cast<std::vector<Stage>*>(at(options, offset));
    list.clear();
    for (const Node& one : node.items) reader.stage(one, self, kind, list.emplace_back());
  };
  field.write = [offset](const void* options) {
    Node list = Node::list();
    for (const Stage& one : *static_cast<const std::vector<Stage>*>(at(options, offset)))
      list.items.push_back(write_stage(one));
    return list;
  };
}

void FieldList::add_inline_stage(std::size_t offset, const std::string& kind) {
  Field field;
  field.key = kind;
  field.type = {.type = ValueType::stage, .stage_kind = kind};
  set_stage(field, offset);
  schema_.inline_stage = std::make_shared<const Field>(std::move(field));
}

}  // namespace trainctl::config
