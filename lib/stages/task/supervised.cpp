#include "spec/options/task.hpp"
#include "stages/builtin.hpp"

namespace trainctl::stages {

/// The targets of the data set decide which of these tasks fits; they compute the same.
void register_task_supervised(stage::Catalog& catalog) {
  catalog.tasks.add_class<spec::task::Auto, stage::Task>("auto");
  catalog.tasks.add_class<spec::task::Classification, stage::Task>("classification");
  catalog.tasks.add_class<spec::task::Regression, stage::Task>("regression");
  catalog.tasks.add_class<spec::task::LanguageModeling, stage::Task>("language_modeling");
}

}  // namespace trainctl::stages
