#include "base/url.hpp"
#include "cli/verb.hpp"
#include "config/schema/dump.hpp"
#include "spec/plugins.hpp"

namespace trainctl::app {
namespace {

struct ShowArguments {
  ConfigArguments config;
  bool minimal = false;
  bool full = false;
};

std::string origin_of(const config::Node& value) {
  const config::Source* source = value.position.source.get();
  if (source == nullptr) return "default";
  return source->is_override ? "override"
                             : fmt::format("{}:{}", printable(source->name), value.position.line);
}

// Collects {"optimizer.lr": "mnist.yaml:14", ...} for every value that is not a map.
void collect_origins(const config::Node& node, const std::string& path, Json& origins) {
  if (node.type != config::Node::Type::map) {
    origins[path] = origin_of(node);
    return;
  }
  for (const config::Entry& entry : node.entries) {
    collect_origins(entry.value, path.empty() ? entry.key : path + "." + entry.key, origins);
  }
}

Json document(const spec::Loaded& loaded, const config::Node& tree) {
  Json files = Json::array();
  for (const config::ConfigFile& file : loaded.files) files.push_back(file.path.string());
  Json origins = Json::object();
  collect_origins(tree, "", origins);
  return {{"schema", "trainctl.config/2"},
          {"files", files},
          {"config", config::to_json(tree)},
          {"origins", origins}};
}

/// Covers `user:password@` in URLs, which can occur in any value of a config.
void cover_passwords(config::Node& node) {
  node.text = without_userinfo(std::move(node.text));
  for (config::Entry& entry : node.entries) cover_passwords(entry.value);
  for (config::Node& item : node.items) cover_passwords(item);
}

int show_config(const ShowArguments& arguments, Context& context) {
  const spec::Loaded loaded =
      spec::load_experiment(arguments.config.file, arguments.config.overrides, context.diagnostics);
  study::log_files(loaded);
  print_warnings(context);
  const config::Schema& schema = spec::experiment_schema();
  const config::Vocabulary& vocabulary = spec::vocabulary_in_use();
  config::Node tree = spec::resolved_tree(loaded);
  if (arguments.minimal) tree = config::without_defaults(tree, schema, vocabulary);
  cover_passwords(tree);
  if (context.json) return print_json(document(loaded, tree));
  config::DumpOptions options{
      .comments = config::Comments::origins, .schema = &schema, .vocabulary = &vocabulary};
  if (arguments.minimal) options.comments = config::Comments::none;
  if (arguments.full) options.comments = config::Comments::help;
  put(stdout, config::dump(tree, options));
  return 0;
}

}  // namespace

void add_show_config(CLI::App& program, Context& context) {
  const auto [verb, arguments] =
      add_verb(program, context,
               {"show-config", "print the resolved experiment and where each value comes from",
                kConfigGroup},
               show_config);
  add_config_arguments(verb, arguments.config, context);
  add_options(verb,
              {{"--minimal", arguments.minimal, "print only values that differ from the defaults"},
               {"--full", arguments.full, "print every key with its description, as a template"}});
  verb.get_option("--full")->excludes("--minimal");
  verb.footer("Example: trainctl show-config --minimal configs/mnist/lenet.yaml optimizer.lr=0.01");
}

}  // namespace trainctl::app
