#include "cli/verb.hpp"

#include "data/core/registry.hpp"
#include "launch/process/isolated_process.hpp"
#include "program.hpp"
#include "spec/plugins.hpp"
#include "study/workers/worker_jobs.hpp"

#include <dlfcn.h>
#include <unistd.h>

namespace trainctl::app {
namespace {

constexpr const char* kGlobalGroup = "Global options";

// Adds an option with a few possible words, stored as the enumerator with the same index.
template <class E, std::size_t N>
void add_choice(CLI::App& app, const std::string& flag, E& value,
                const std::array<const char*, N>& names, const std::string& place) {
  const std::vector<std::string> words(names.begin(), names.end());
  const auto choose = [&value, words, flag](const std::string& word) {
    const auto found = std::ranges::find(words, word);
    if (found == words.end())
      throw CLI::ValidationError(
          flag, fmt::format("'{}' is not one of {}", printable(word), join(words, ", ")));
    value = static_cast<E>(found - words.begin());
  };
  app.add_option_function<std::string>(flag, choose, join(words, ", "))
      ->type_name(place)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(kGlobalGroup);
}

void take_word(ConfigArguments& arguments, const std::string& word) {
  if (is_override(word)) {
    arguments.overrides.push_back(word);
    return;
  }
  if (!arguments.file.empty()) {
    throw CLI::ValidationError(fmt::format(
        "'{}' must be an override with a value (key=value); the experiment file is '{}'",
        printable(word), printable(arguments.file)));
  }
  arguments.file = word;
}

constexpr unsigned kTrialS = 20;

/// A loaded plug-in stays loaded and need not be tried.
bool is_loaded(const std::filesystem::path& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);  // only releases the reference of this call
  return handle != nullptr;
}

void try_apart(const std::filesystem::path& library) {
  if (is_loaded(library)) return;
  const std::string who = "plug-in '" + printable(library.string()) + "'";
  const auto trial = [&library] {
    ::alarm(kTrialS);
    const spec::Plugin plugin = spec::load_plugin(library);
    spec::PluginSet alone;
    alone.add(plugin);
    data::Catalog all;
    if (plugin.entry->add_data != nullptr) plugin.entry->add_data(all);
    return std::string();
  };
  try {
    launch::run_isolated(trial, {.process_name = who + ", loaded on trial in a separate process,"});
  } catch (const launch::ForkError&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::config) throw;
    THROW(config, "{}\nhint: remove it from 'plugins', or fix what it does when it is loaded",
          without_hint(error.what()));
  }
}

}  // namespace

void add_global_flags(CLI::App& app, Context& context) {
  app.set_help_flag("-h,--help", "show this help")->group(kGlobalGroup);
  app.add_flag("--json", context.json, "print one JSON document to stdout")->group(kGlobalGroup);
  app.add_flag("-q,--quiet", context.quiet, "print only results and errors")->group(kGlobalGroup);
  app.add_flag("-v,--verbose", context.verbosity, "print more; repeat for even more")
      ->group(kGlobalGroup);
  add_choice(app, "--color", context.color, std::array{"auto", "always", "never"}, "WHEN");
  add_choice(app, "--progress", context.progress, std::array{"auto", "tty", "plain", "none"},
             "HOW");
}

CLI::App& add_verb_group(CLI::App& program, Context& context, const VerbText& text) {
  CLI::App& verb = *program.add_subcommand(text.name, text.summary)->group(text.group);
  add_global_flags(verb, context);
  verb.require_subcommand(1);
  return verb;
}

CLI::App& add_verb(CLI::App& program, Context& context, const VerbText& text,
                   std::function<int()> action) {
  CLI::App& verb = *program.add_subcommand(text.name, text.summary)->group(text.group);
  add_global_flags(verb, context);
  verb.callback([&context, &verb, run = std::move(action), directory = text.directory] {
    context.action = [&context, &verb, run, directory] {
      if (directory == WorkingDirectory::existing) check_working_directory();
      const auto complete = context.complete_arguments.find(&verb);
      if (complete != context.complete_arguments.end()) complete->second();
      return run();
    };
  });
  return verb;
}

void add_options(CLI::App& verb, std::initializer_list<OptionRow> table) {
  for (const OptionRow& row : table) row.add_to(verb);
}

void make_repeatable(CLI::App& verb, const char* name) {
  verb.get_option(name)->allow_extra_args(false)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[least, most](const std::string& text) -> std::string {
            const auto value = parse_number<std::int64_t>(text);
            if (value && *value >= least && *value <= most) return {};
            return fmt::format("'{0}' must be an integer from {1} to {2}", printable(text), least,
                               most);
          },
          ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  return {[words = std::move(words)](const std::string& text) -> std::string {
            if (std::ranges::find(words, text) != words.end()) return {};
            return fmt::format("'{}' is not one of {}", printable(text), join(words, ", "));
          },
          ""};
}

void add_split_argument(CLI::App& verb, std::string& split) {
  add_options(verb, {{"--split", split, "SPLIT",
                      fmt::format("split to use: train, val or test (default: {})", split),
                      CLI::IsMember({"train", "val", "test"}).description("")}});
}

void add_selection_flags(CLI::App& verb, SelectionFlags& flags) {
  add_options(verb,
              {{"--section", flags.section, "NAME",
                "key of the state dict in the file, for example state_dict_ema"},
               {"--prefix", flags.prefix, "TEXT",
                "use only tensors with this prefix and remove it, for example model."},
               {"--key-map", flags.key_map, "FROM=TO",
                "rename tensor FROM to TO, or a prefix if both end with a dot; can be repeated"}});
  make_repeatable(verb, "--key-map");
}

weights::Selection selection_of(const SelectionFlags& flags) {
  weights::Selection selection{.section = flags.section,
                               .renaming = {.prefix = flags.prefix,
                                            .key_map = {},
                                            .prefix_option = "--prefix",
                                            .key_map_option = "--key-map"}};
  for (const std::string& word : flags.key_map) {
    const std::size_t equals = word.find('=');
    ENSURE(config, equals != std::string::npos && equals > 0,
           "--key-map must be FROM=TO, as in head.weight=fc.weight, got '{}'", printable(word));
    const bool added =
        selection.renaming.key_map.emplace(word.substr(0, equals), word.substr(equals + 1)).second;
    ENSURE(config, added, "--key-map renames '{}' twice", printable(word.substr(0, equals)));
  }
  return selection;
}

void add_quantize_flags(CLI::App& verb, QuantizeFlags& flags) {
  add_options(verb, {{"--quantize", flags.type, "TYPE",
                      "convert the model to int8 for the CPU (the only type)", one_of({"int8"})},
                     {"--calibrate", flags.calibrate, "N",
                      "with --quantize: batches of dataset.train that set the ranges (default: 32)",
                      whole_number(1, INT32_MAX)},
                     {"--observer", flags.observer, "HOW",
                      "with --quantize: choose ranges by histogram or min_max (default: histogram)",
                      one_of({"histogram", "min_max"})}});
}

std::optional<spec::Quantization> quantization_of(const QuantizeFlags& flags) {
  ENSURE(config, !flags.type.empty() || (!flags.calibrate && flags.observer.empty()),
         "--calibrate and --observer apply only to --quantize\nhint: add --quantize int8");
  if (flags.type.empty()) return std::nullopt;
  spec::Quantization options;
  options.calibrate = flags.calibrate.value_or(options.calibrate);
  if (!flags.observer.empty()) options.observer = *enum_called<spec::Observer>(flags.observer);
  return options;
}

void add_auto_option(CLI::App& verb, const std::string& flag, AutoOption& value,
                     const std::string& text, int least, int most) {
  const auto number = whole_number(least, most);
  const auto take = [&value, flag, number](const std::string& word) {
    value.emplace();
    if (word == "auto") return;
    const std::string problem = number(word);
    if (!problem.empty()) throw CLI::ValidationError(flag + ": " + problem + ", or auto");
    value->value = std::stoi(word);
  };
  verb.add_option_function<std::string>(flag, take, text)->type_name("N|auto");
}

void add_plugin_option(CLI::App& verb, std::vector<std::string>& libraries) {
  add_options(
      verb, {{"--plugin", libraries, "FILE", "include the stages of a plug-in; can be repeated"}});
  make_repeatable(verb, "--plugin");
}

void use_plugin_files(const std::vector<std::string>& libraries) {
  spec::PluginSet set;
  for (const std::string& library : libraries)
    set.add(spec::open_plugin(std::filesystem::absolute(library).lexically_normal()));
  spec::use_plugins(std::move(set));
}

void try_plugins_apart() { spec::try_plugins_with(try_apart); }

bool is_override(std::string_view word) {
  if (word.starts_with('.') || word.starts_with('/')) return false;
  if (word.starts_with('+') || word.starts_with('~')) return true;
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos &&
         word.substr(0, equals).find('/') == std::string_view::npos && !is_file(word);
}

std::string default_config(const Context& context, Builtin builtin) {
  constexpr const char* kFile = "config.yaml";
  const bool prints = !context.quiet && !context.json;
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(kFile, ignored))) {
    if (prints) put(stderr, fmt::format("no CONFIG given: using ./{}\n", kFile));
    return kFile;
  }
  const std::string name(spec::kBuiltinPrefix);
  const std::string chosen = name + (builtin == Builtin::quickstart ? "quickstart" : "photographs");
  if (prints)
    put(stderr, fmt::format("no CONFIG given: using the built-in experiment {0} (print it: "
                            "trainctl show-config {0})\n",
                            chosen));
  return chosen;
}

void add_config_arguments(CLI::App& verb, ConfigArguments& arguments, Context& context,
                          Builtin builtin) {
  context.complete_arguments[&verb] = [&arguments, &context, builtin] {
    if (arguments.file.empty()) arguments.file = default_config(context, builtin);
  };
  const auto take = [&arguments](const std::vector<std::string>& words) {
    for (const std::string& word : words) take_word(arguments, word);
  };
  add_options(verb, {{"-c,--config", arguments.file, "FILE",
                      "experiment file, instead of the first argument"}});
  verb.add_option_function<std::vector<std::string>>(
          "words", take,
          "experiment file (default: ./config.yaml, else a built-in one)\n"
          "override: a.b=c sets a key, +a.b=c adds one, ++a.b=c does either, ~a.b deletes one")
      ->type_name("[CONFIG] [key=value ...]");
}

study::Invocation invocation_of(const ConfigArguments& arguments, const Context& context) {
  return {.config_file = arguments.file,
          .overrides = arguments.overrides,
          .argv = context.argv,
          .executable = executable_path(),
          .version = version_text(),
          .verbosity = context.verbosity};
}

spec::Loaded load_checked(const ConfigArguments& arguments, Context& context,
                          study::Purpose purpose) {
  study::TrainingSamples ignored;
  spec::Loaded loaded =
      spec::load_experiment(arguments.file, arguments.overrides, context.diagnostics,
                            study::checks_for(purpose, ignored));
  print_warnings(context);
  return loaded;
}

void check_model(const spec::Loaded& loaded, const study::TrainingSamples& samples,
                 config::Diagnostics& diagnostics) {
  check_working_directory();
  ENSURE(resource, find_engine_library().has_value(),
         "cannot check the model: this build has no training engine (libtrainctl_engine.so)\nhint: "
         "build it with cmake --build "
         "--preset release");
  study::check_model(loaded, samples.model_input, executable_path(), diagnostics);
}

}  // namespace trainctl::app
