#pragma once

namespace CLI {
class App;
}

namespace trainctl::app {

struct Context;

// The verbs below `trainctl checkpoint`, each in the source of its name; ls and verify stand in
// checkpoint.cpp, import beside export.
void add_checkpoint_inspect(CLI::App& checkpoint, Context& context);
void add_checkpoint_export(CLI::App& checkpoint, Context& context);
void add_checkpoint_import(CLI::App& checkpoint, Context& context);

}  // namespace trainctl::app
