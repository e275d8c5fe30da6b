#include "cli/model_check.hpp"

#include "base/bounded_text.hpp"
#include "base/error.hpp"
#include "cli/context.hpp"
#include "cli/engine_library.hpp"
#include "config/tree/tree_path.hpp"
#include "study/workers/model_check.hpp"

namespace trainctl::app {

void check_model(const spec::Loaded& loaded, const std::optional<spec::ModelInput>& input,
                 config::Diagnostics& diagnostics) {
  check_working_directory();
  ENSURE(resource, find_engine_library().has_value(),
         "cannot check the model: this build has no engine; build it with: cmake --build --preset "
         "release");
  for (const study::ModelProblem& problem : study::check_model(loaded, input, executable_path())) {
    const config::Node* place = config::find_path(loaded.tree, problem.key);
    diagnostics.add({.position = place != nullptr ? place->position : config::Position{},
                     .message = with_prefix(problem.key, problem.message),
                     .kind = problem.kind});
  }
}

}  // namespace trainctl::app
