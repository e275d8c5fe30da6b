#pragma once

namespace CLI {
class App;
}

namespace trainctl::app {

struct Context;

// One function a verb, each in the source of the verb's name; main.cpp lists them in the order of
// --help.
void add_run(CLI::App& program, Context& context);
void add_eval(CLI::App& program, Context& context);
void add_predict(CLI::App& program, Context& context);
void add_worker(CLI::App& program, Context& context);
void add_bench(CLI::App& program, Context& context);
void add_tune(CLI::App& program, Context& context);
void add_sweep(CLI::App& program, Context& context);
void add_compare(CLI::App& program, Context& context);
void add_report(CLI::App& program, Context& context);
void add_lr_find(CLI::App& program, Context& context);
void add_top(CLI::App& program, Context& context);
void add_checkpoint(CLI::App& program, Context& context);
void add_verify_resume(CLI::App& program, Context& context);
void add_data(CLI::App& program, Context& context);
void add_validate(CLI::App& program, Context& context);
void add_plan(CLI::App& program, Context& context);
void add_show_config(CLI::App& program, Context& context);
void add_schema(CLI::App& program, Context& context);
void add_explain(CLI::App& program, Context& context);
void add_list(CLI::App& program, Context& context);
void add_doctor(CLI::App& program, Context& context);
void add_completion(CLI::App& program, Context& context);
void add_version(CLI::App& program, Context& context);

}  // namespace trainctl::app
