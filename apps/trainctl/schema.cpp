#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/shared_options.hpp"
#include "config/schema/json_schema.hpp"
#include "spec/load.hpp"
#include "spec/plugins.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

std::string suggestion(const std::string& word, const std::vector<std::string>& words) {
  const auto found = nearest(word, words);
  return found ? fmt::format("did you mean '{}'?", *found) : "there are: " + join(words, ", ");
}

Json schema_of_type(const config::Vocabulary& vocabulary, const std::string& kind,
                    const std::string& name) {
  const config::StageType* stage = vocabulary.find(kind, name);
  ENSURE(config, stage != nullptr, "unknown {} '{}'; {}", kind, printable(name),
         suggestion(name, vocabulary.names(kind)));
  return config::json_schema(*stage, vocabulary);
}

// Any type of the kind.
Json schema_of_kind(const config::Vocabulary& vocabulary, const std::string& kind) {
  Json types = Json::array();
  Json definitions;
  for (const std::string& name : vocabulary.names(kind)) {
    Json one = schema_of_type(vocabulary, kind, name);
    one.erase("$schema");
    definitions = one["$defs"];
    one.erase("$defs");
    types.push_back(std::move(one));
  }
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", kind},
          {"oneOf", types},
          {"$defs", definitions}};
}

Json schema_for(const std::string& wanted) {
  const config::Vocabulary& vocabulary = spec::vocabulary_in_use();
  if (wanted.empty()) return config::json_schema(spec::experiment_schema(), vocabulary);
  const std::size_t slash = wanted.find('/');
  const std::string kind = wanted.substr(0, slash);
  const std::vector<std::string> kinds = vocabulary.kinds();
  ENSURE(config, std::ranges::find(kinds, kind) != kinds.end(), "unknown kind '{}'; {}",
         printable(kind), suggestion(kind, kinds));
  return slash == std::string::npos ? schema_of_kind(vocabulary, kind)
                                    : schema_of_type(vocabulary, kind, wanted.substr(slash + 1));
}

struct SchemaArguments {
  std::string wanted;
  std::vector<std::string> plugins;
};

int show_schema(const SchemaArguments& arguments, const Context& context) {
  use_plugin_files(arguments.plugins);
  const Json schema = schema_for(arguments.wanted);
  print_json(context.json ? Json{{"schema", "trainctl.schema/1"}, {"json_schema", schema}}
                          : schema);
  return 0;
}

}  // namespace

void add_schema(CLI::App& program, Context& context) {
  const auto arguments = std::make_shared<SchemaArguments>();
  CLI::App& verb =
      add_verb(program, context,
               {"schema", "JSON Schema of the file or of one stage, for editors", kConfigGroup},
               [arguments, &context] { return show_schema(*arguments, context); });
  verb.add_option("stage", arguments->wanted,
                  "optimizer: any optimizer; optimizer/adam: this one; absent: the whole file")
      ->type_name("[KIND[/TYPE]]");
  add_plugin_option(verb, arguments->plugins);
}

}  // namespace trainctl::app
