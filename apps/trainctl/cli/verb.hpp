#pragma once

// What the source of a verb needs: its declaration, the context, the helpers that declare options,
// and the headers that nearly every verb includes.

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "cli/output.hpp"
#include "config/schema/describe.hpp"
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

namespace trainctl::app {

/// Adds one verb to the program, or to the verb that it stands below. Each is defined in the source
/// of the verb's name; main.cpp lists those of the program in the order of --help.
using AddVerb = void(CLI::App& program, Context& context);
AddVerb add_run, add_eval, add_predict, add_worker, add_bench, add_tune, add_sweep, add_compare;
AddVerb add_report, add_lr_find, add_top, add_checkpoint, add_verify_resume, add_data, add_validate;
AddVerb add_plan, add_show_config, add_schema, add_explain, add_list, add_doctor, add_completion;
AddVerb add_version;
// Below `trainctl checkpoint`, whose own source has ls and verify.
AddVerb add_checkpoint_inspect, add_checkpoint_export, add_checkpoint_import;
// Below `trainctl data`, whose own source has hash.
AddVerb add_data_bench, add_data_show, add_data_stats, add_data_pack;

/// The headings of `trainctl --help`.
inline constexpr const char* kTrainGroup = "Train and measure";
inline constexpr const char* kConfigGroup = "Understand an experiment file";
inline constexpr const char* kMachineGroup = "This program and machine";

/// existing: the verb starts processes, which work in the folder of this one.
enum class WorkingDirectory { any, existing };

struct VerbText {
  std::string name;
  std::string summary;  // one line, of `trainctl --help`
  const char* group;    // one of the headings above; "" hides the verb
  WorkingDirectory directory = WorkingDirectory::any;
};

/// Adds a verb with the global flags; `action` runs after the whole command line has been parsed,
/// and after check_working_directory() where the verb needs one.
CLI::App& add_verb(CLI::App& program, Context& context, const VerbText& text,
                   std::function<int()> action);

/// Adds a verb that does nothing but hold the verbs below it.
CLI::App& add_verb_group(CLI::App& program, Context& context, const VerbText& text);

template <class Flags>
struct Verb {
  CLI::App& app;
  Flags& flags;  // where the options of the command line go; lives as long as the verb
};

/// Adds a verb whose action is `run(flags, context)`; returns it with the flags that `run` gets.
template <class Flags, class ContextOfVerb>
auto add_verb(CLI::App& program, Context& context, const VerbText& text,
              int (*run)(Flags, ContextOfVerb&)) {
  const auto flags = std::make_shared<std::remove_cvref_t<Flags>>();
  CLI::App& app =
      add_verb(program, context, text, [flags, run, &context] { return run(*flags, context); });
  return Verb<std::remove_cvref_t<Flags>>{app, *flags};
}

/// --json, --quiet, -v, --color, --progress.
void add_global_flags(CLI::App& app, Context& context);

/// A row of a verb's table of options.
class OptionRow {
 public:
  /// A switch, or a flag whose value is optional.
  template <class T>
  OptionRow(const std::string& names, T& value, const std::string& help)
      : add_([=, &value](CLI::App& verb) { verb.add_flag(names, value, help); }) {}
  /// An option, or an argument where `names` has no dashes; `type` is what the help calls its
  /// value, and `check` says what is wrong with it.
  template <class T>
  OptionRow(const std::string& names, T& value, const char* type, const std::string& help,
            const std::optional<CLI::Validator>& check = std::nullopt)
      : add_([=, &value](CLI::App& verb) {
          CLI::Option* option = verb.add_option(names, value, help)->type_name(type);
          if (check) option->check(*check);
        }) {}

  void add_to(CLI::App& verb) const { add_(verb); }

 private:
  std::function<void(CLI::App& verb)> add_;
};

/// Adds the options in the order of the table, which is that of --help.
void add_options(CLI::App& verb, std::initializer_list<OptionRow> table);

/// Lets an option be given several times, with one value each: it takes no word that follows.
void make_repeatable(CLI::App& verb, const char* name);

/// A check for a whole number from `least` to `most`, in words that do not depend on CLI11's
/// version.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// A check for one of the words.
CLI::Validator one_of(std::vector<std::string> words);

/// A check for a number from `least` to `most`, in CLI11's words.
template <class Number>
CLI::Validator within(Number least, Number most) {
  return CLI::Range(least, most).description("");
}

/// --split train|val|test.
void add_split_argument(CLI::App& verb, std::string& split);

/// Which tensors of a file of weights are taken, and under which names.
struct SelectionFlags {
  std::string section;
  std::string prefix;
  std::vector<std::string> key_map;  // "FROM=TO"
};

/// Adds --section, --prefix and --key-map.
void add_selection_flags(CLI::App& verb, SelectionFlags& flags);

/// Throws Error(config) for a --key-map that is not FROM=TO.
weights::Selection selection_of(const SelectionFlags& flags);

/// A whole number or the word `auto`, as the experiment file has it; absent where the file decides.
using AutoOption = std::optional<config::Auto<int>>;

/// Adds such an option, of numbers from `least` to `most`.
void add_auto_option(CLI::App& verb, const std::string& flag, AutoOption& value,
                     const std::string& text, int least, int most);

/// Adds --plugin FILE, for verbs that tell what there is without an experiment.
void add_plugin_option(CLI::App& verb, std::vector<std::string>& libraries);

/// Makes these the plug-ins in use. Throws Error(config).
void use_plugin_files(const std::vector<std::string>& libraries);

/// From now on each plug-in is loaded by a process of its own first: one that crashes there is an
/// error and no end of this program. Called once, by main.
void try_plugins_apart();

}  // namespace trainctl::app
