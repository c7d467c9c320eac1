//! x
mod model_scan;
