#pragma once

namespace CLI {
class App;
}

namespace trainctl::app {

struct Context;

/// `trainctl data pack`.
void add_data_pack(CLI::App& data, Context& context);

}  // namespace trainctl::app
