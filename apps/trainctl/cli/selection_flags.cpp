#include "cli/selection_flags.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <CLI/CLI.hpp>

namespace trainctl::app {

void add_selection_flags(CLI::App& verb, SelectionFlags& flags) {
  verb.add_option("--section", flags.section,
                  "the key of the state dict in a .pth or .ckpt file, such as state_dict_ema")
      ->type_name("NAME");
  verb.add_option("--prefix", flags.prefix,
                  "take the tensors whose names begin so and remove it, such as model.")
      ->type_name("TEXT");
  verb.add_option("--key-map", flags.key_map,
                  "rename a tensor, or with dots at the ends a group: FROM=TO; may be repeated")
      ->type_name("FROM=TO")
      ->allow_extra_args(false);  // else it would take the overrides after it
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
    ENSURE(config, added, "--key-map names '{}' twice", printable(word.substr(0, equals)));
  }
  return selection;
}

}  // namespace trainctl::app
