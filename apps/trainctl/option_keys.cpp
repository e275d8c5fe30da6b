#include "option_keys.hpp"

#include "config/describe.hpp"
#include "spec/load.hpp"

namespace trainctl::app {
namespace {

class Walker {
 public:
  explicit Walker(const config::Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  void walk(const config::Schema& schema, const std::string& prefix) {
    if (schema.inline_stage) walk_types(schema.inline_stage->type.stage_kind, prefix);
    for (const config::Field& field : schema.fields) add(field, prefix, "");
  }

  std::vector<OptionKey> take() { return std::move(keys_); }

 private:
  void add(const config::Field& field, const std::string& prefix, const std::string& stage) {
    const std::string path = prefix + field.key;
    if (field.type.type == config::ValueType::object) {
      walk(*field.type.object, path + ".");
      return;
    }
    keys_.push_back({path, stage, choices_of(field.type)});
    if (field.type.type == config::ValueType::stage) {
      keys_.back().choices = vocabulary_.names(field.type.stage_kind);
      walk_types(field.type.stage_kind, path + ".");
    }
  }

  void walk_types(const std::string& kind, const std::string& prefix) {
    keys_.push_back({prefix + "type", "", vocabulary_.names(kind)});
    for (const std::string& name : vocabulary_.names(kind)) {
      std::string stage = kind;
      stage += "/" + name;
      for (const config::Field& field : vocabulary_.find(kind, name)->schema.fields) add(field, prefix, stage);
    }
  }

  const config::Vocabulary& vocabulary_;
  std::vector<OptionKey> keys_;
};

}  // namespace

std::vector<std::string> choices_of(const config::FieldType& type) {
  std::vector<std::string> choices = type.choices;
  if (type.type == config::ValueType::boolean) choices = {"true", "false"};
  if (type.accepts_auto) choices.insert(choices.begin(), "auto");
  return choices;
}

std::vector<OptionKey> option_keys() {
  Walker walker(spec::builtin_vocabulary());
  walker.walk(*config::Codec<spec::Experiment>::schema(), "");
  return walker.take();
}

}  // namespace trainctl::app
