#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "cli/output.hpp"
#include "config/schema/describe.hpp"
#include "spec/load.hpp"
#include "study/run/run.hpp"
#include "weights/import.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

// What the source of a command needs: the declaration of its function, the context, functions that
// declare options, and the headers that nearly every command includes.

namespace trainctl::app {

/// Adds one command to the program or to its parent command. main.cpp lists the top-level ones in
/// the order of --help.
using AddVerb = void(CLI::App& program, Context& context);
AddVerb add_run, add_eval, add_predict, add_worker, add_bench, add_tune, add_sweep, add_compare;
AddVerb add_report, add_lr_find, add_top, add_checkpoint, add_verify_resume, add_data, add_validate;
AddVerb add_plan, add_show_config, add_schema, add_explain, add_list, add_doctor, add_completion;
AddVerb add_version, add_init;
// Commands below `trainctl checkpoint` and `trainctl data` that have their own source.
AddVerb add_checkpoint_export, add_checkpoint_import, add_data_pack, add_data_tokenize;

/// Headings of `trainctl --help`.
inline constexpr const char* kTrainGroup = "Train and measure";
inline constexpr const char* kConfigGroup = "Check and inspect";
inline constexpr const char* kMachineGroup = "This program and machine";

/// `existing` is for commands that start processes, which use this working directory.
enum class WorkingDirectory { any, existing };

struct VerbText {
  std::string name;
  std::string summary;  // one line, for `trainctl --help`
  const char* group;    // one of the headings above; "" hides the command
  WorkingDirectory directory = WorkingDirectory::any;
};

/// Adds a command with the global flags. `action` runs after the whole command line has been
/// parsed, and after check_working_directory() if the command needs one.
CLI::App& add_verb(CLI::App& program, Context& context, const VerbText& text,
                   std::function<int()> action);

/// Adds a command that only contains other commands.
CLI::App& add_verb_group(CLI::App& program, Context& context, const VerbText& text);

template <class Flags>
struct Verb {
  CLI::App& app;
  Flags& flags;  // receives the options; lives as long as the command
};

/// Adds a command whose action is `run(flags, context)` and returns it with the flags for `run`.
template <class Flags, class ContextOfVerb>
auto add_verb(CLI::App& program, Context& context, const VerbText& text,
              int (*run)(Flags, ContextOfVerb&)) {
  const auto flags = std::make_shared<std::remove_cvref_t<Flags>>();
  CLI::App& app =
      add_verb(program, context, text, [flags, run, &context] { return run(*flags, context); });
  return Verb<std::remove_cvref_t<Flags>>{app, *flags};
}

/// Adds --json, --quiet, -v, --color and --progress.
void add_global_flags(CLI::App& app, Context& context);

/// One row in the table of a command's options.
class OptionRow {
 public:
  /// A switch, or a flag with an optional value.
  template <class T>
  OptionRow(const std::string& names, T& value, const std::string& help)
      : add_([=, &value](CLI::App& verb) { verb.add_flag(names, value, help); }) {}
  /// An option, or an argument if `names` has no dashes, which is required unless its type is in
  /// brackets. `type` is the name of its value in the help; `check` validates the value.
  template <class T>
  OptionRow(const std::string& names, T& value, const char* type, const std::string& help,
            const std::optional<CLI::Validator>& check = std::nullopt)
      : add_([=, &value](CLI::App& verb) {
          CLI::Option* option = verb.add_option(names, value, help)->type_name(type);
          option->required(names.front() != '-' && *type != '[');
          if (check) option->check(*check);
        }) {}

  void add_to(CLI::App& verb) const { add_(verb); }

 private:
  std::function<void(CLI::App& verb)> add_;
};

/// Adds the options in the order of the table, which is the order in --help.
void add_options(CLI::App& verb, std::initializer_list<OptionRow> table);

/// Allows an option several times, each with exactly one value.
void make_repeatable(CLI::App& verb, const char* name);

/// Returns a check for an integer from `least` to `most`, with a message that does not depend on
/// the CLI11 version.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// Returns a check for one of the words.
CLI::Validator one_of(std::vector<std::string> words);

/// Returns a check for a number from `least` to `most`, with CLI11's message.
template <class Number>
CLI::Validator within(Number least, Number most) {
  return CLI::Range(least, most).description("");
}

/// Adds --split train|val|test; `split` has its default.
void add_split_argument(CLI::App& verb, std::string& split);

/// Flags that select and rename the tensors of a weights file.
struct SelectionFlags {
  std::string section;
  std::string prefix;
  std::vector<std::string> key_map;  // "FROM=TO"
};

/// Adds --section, --prefix and --key-map.
void add_selection_flags(CLI::App& verb, SelectionFlags& flags);

/// Returns the selection. Throws Error(config) if a --key-map is not FROM=TO.
weights::Selection selection_of(const SelectionFlags& flags);

/// The flags of a conversion to int8.
struct QuantizeFlags {
  std::string type;  // empty: no conversion
  std::optional<std::int64_t> calibrate;
  std::string observer;
};

/// Adds --quantize, --calibrate and --observer.
void add_quantize_flags(CLI::App& verb, QuantizeFlags& flags);

/// Returns the options of the conversion. Throws Error(config) if they are set without --quantize.
std::optional<spec::Quantization> quantization_of(const QuantizeFlags& flags);

/// An integer or `auto`, as in the experiment file; absent if the file decides.
using AutoOption = std::optional<config::Auto<int>>;

/// Adds an AutoOption for integers from `least` to `most`.
void add_auto_option(CLI::App& verb, const std::string& flag, AutoOption& value,
                     const std::string& text, int least, int most);

/// Adds --plugin FILE, for commands that list what is available without an experiment.
void add_plugin_option(CLI::App& verb, std::vector<std::string>& libraries);

/// Makes these files the plug-ins in use. Throws Error(config).
void use_plugin_files(const std::vector<std::string>& libraries);

/// Makes every plug-in be loaded in a separate process first, so that a plug-in that crashes is
/// reported as an error instead of ending this program. Called once, by main().
void try_plugins_apart();

/// The arguments of a command that works on one experiment: CONFIG [key=value ...], or -c CONFIG.
struct ConfigArguments {
  std::string file;
  std::vector<std::string> overrides;
};

/// Returns whether a word is an override: `a.b=c`, `+a.b=c`, `++a.b=c` or `~a.b`. All other words
/// are files, and so are words that start with '.' or '/', have a '/' before the '=', or exist as a
/// file.
bool is_override(std::string_view word);

/// The built-in experiment of a command without CONFIG: a first network, or one limited by image
/// I/O.
enum class Builtin { quickstart, photographs };

/// Returns the experiment of a command without CONFIG: ./config.yaml if it exists, else the
/// built-in one. Prints a line about the choice.
std::string default_config(const Context& context, Builtin builtin);

/// Adds CONFIG, the overrides and -c/--config. Without CONFIG the command uses default_config().
void add_config_arguments(CLI::App& verb, ConfigArguments& arguments, Context& context,
                          Builtin builtin = Builtin::quickstart);

/// Returns the settings that all run requests of this experiment share.
study::Invocation invocation_of(const ConfigArguments& arguments, const Context& context);

/// Loads the experiment with the checks for the purpose and prints its warnings. Throws the errors
/// of spec::load_experiment().
spec::Loaded load_checked(const ConfigArguments& arguments, Context& context,
                          study::Purpose purpose);

/// Calls study::check_model(). Throws Error(resource) if this build has no engine.
void check_model(const spec::Loaded& loaded, const study::TrainingSamples& samples,
                 config::Diagnostics& diagnostics);

}  // namespace trainctl::app
