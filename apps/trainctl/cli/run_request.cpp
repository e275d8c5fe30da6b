#include "cli/run_request.hpp"

#include "build_info.hpp"
#include "cli/engine_library.hpp"

#include <utility>

namespace trainctl::app {

study::RunRequest request_of(spec::Loaded loaded, const ConfigArguments& config,
                             const Context& context) {
  study::RunRequest request;
  request.loaded = std::move(loaded);
  request.config_file = config.file;
  request.overrides = config.overrides;
  request.folder.name = request.loaded.experiment.name;
  request.argv = context.argv;
  request.executable = executable_path();
  request.version = version_text();
  request.verbosity = context.verbosity;
  return request;
}

}  // namespace trainctl::app
