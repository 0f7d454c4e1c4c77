//! The proxies between a client and the model: none, nginx, Lookback and LiteLLM.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::model::Model;

pub struct Proxy {
    pub name: &'static str,
    pub base: String,
    child: Option<Child>,
    _folder: Option<tempfile::TempDir>,
}

impl Proxy {
    /// No proxy: the client calls the model directly.
    pub fn none(model: &Model) -> Proxy {
        Proxy { name: "nothing between", base: format!("http://{}", model.address), child: None, _folder: None }
    }

    /// Returns the memory of the process now, in megabytes. `None` without a process, or on systems other than Linux.
    pub fn megabytes(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.as_ref()?.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1e3)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // Asked to end, nginx ends its workers. If it is killed, they stay.
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let latest = Instant::now() + Duration::from_secs(5);
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < latest {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Starts nginx as a bare reverse proxy that keeps its connections and does not buffer answers.
pub fn nginx(model: &Model) -> Proxy {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let config = format!(
        "daemon off; worker_processes 2; pid {path}/pid; error_log {path}/error.log;
         events {{ worker_connections 4096; }}
         http {{
           access_log off; client_max_body_size 64m; client_body_buffer_size 2m; keepalive_requests 1000000;
           client_body_temp_path {path}; proxy_temp_path {path}; fastcgi_temp_path {path}; uwsgi_temp_path {path};
           scgi_temp_path {path};
           upstream model {{ server {model}; keepalive 64; keepalive_requests 1000000; }}
           server {{ listen 127.0.0.1:{port}; location / {{
             proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_buffering off;
           }} }}
         }}",
        path = folder.path().display(),
        model = model.address,
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, config).expect("room on the disk");
    let child = Command::new("nginx").arg("-c").arg(&file).stderr(Stdio::null()).spawn().expect("nginx is installed");
    started("nginx", port, child, folder)
}

/// Starts Lookback in front of the model. Its sessions are in a file, which is the default.
pub fn lookback(model: &Model, arguments: &[&str]) -> Proxy {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(crate::body::lookback());
    command.arg("serve").args(["--listen", "127.0.0.1:0", "--log", "failures", "--upstream"]);
    command.arg(format!("http://{}", model.address)).arg("--store").arg(folder.path().join("memory.db"));
    let mut child = command.args(arguments).stderr(Stdio::piped()).spawn().expect("lookback runs");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let line = lines.next().expect("a line").expect("text");
    let base = line.strip_prefix("listening on ").expect("the address").to_owned();
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("lookback: {line}")));
    Proxy { name: "Lookback", base, child: Some(child), _folder: Some(folder) }
}

/// Starts LiteLLM's proxy, if it is installed. To install it: `python3 -m venv bench/.venv`,
/// `bench/.venv/bin/pip install 'litellm[proxy]'`.
pub fn litellm(model: &Model) -> Option<Proxy> {
    let program = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/litellm");
    if !program.exists() {
        println!("LiteLLM is left out: there is no {}\n", program.display());
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let config = format!(
        "model_list:\n  - model_name: gpt-4o\n    litellm_params:\n      model: openai/gpt-4o\n      api_base: http://{}/v1\n      api_key: key\n",
        model.address
    );
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, config).expect("room on the disk");
    let mut command = Command::new(program);
    command.arg("--config").arg(&file).args(["--port", &port.to_string(), "--host", "127.0.0.1", "--num_workers", "2"]);
    command
        .args(["--telemetry", "False"])
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .env("LITELLM_MASTER_KEY", super::load::KEY);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("litellm runs");
    Some(started("LiteLLM", port, child, folder))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// Waits until the proxy answers.
fn started(name: &'static str, port: u16, child: Child, folder: tempfile::TempDir) -> Proxy {
    let begun = Instant::now();
    let base = format!("http://127.0.0.1:{port}");
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    while agent.get(format!("{base}/health/liveliness")).call().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{name} did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    Proxy { name, base, child: Some(child), _folder: Some(folder) }
}
