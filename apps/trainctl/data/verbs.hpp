#pragma once

namespace CLI {
class App;
}

namespace trainctl::app {

struct Context;

// The verbs below `trainctl data`, each in the source of its name.
void add_data_bench(CLI::App& data, Context& context);
void add_data_show(CLI::App& data, Context& context);
void add_data_stats(CLI::App& data, Context& context);

}  // namespace trainctl::app
