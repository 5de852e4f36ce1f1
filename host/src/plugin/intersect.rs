//! The intersection of what a team file grants and what its operator allows. If an intersection
//! cannot be expressed as a grant, nothing is granted.

use std::io;
use std::path::{Path, PathBuf};

use super::http::{HostPattern, HttpGrant};
use super::{Access, DirGrant, Grants, LlmGrant, pattern};

/// What an operator allows. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantBounds {
    /// Language models.
    pub llm: Option<LlmGrant>,
    /// The endpoints of models, with the keys that may be sent there.
    pub endpoints: Vec<HttpGrant>,
    /// Directories, with everything below them.
    pub dirs: Vec<DirBound>,
    /// Names of environment variables; `*` matches any characters.
    pub env: Vec<String>,
    /// Hosts on the network.
    pub http: Vec<HttpGrant>,
    /// Names of secrets; `*` matches any characters.
    pub secrets: Vec<String>,
}

/// A directory that an operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirBound {
    /// The absolute path.
    pub host: PathBuf,
    /// Whether it may be written to.
    pub access: Access,
    /// The maximum of `max_size`; `None` for no limit.
    pub max_bytes: Option<u64>,
}

impl Grants {
    /// Returns the part of these grants that the bounds allow.
    pub fn within(&self, bounds: &GrantBounds) -> Self {
        let named = |names: &[String], allowed: &[String]| -> Vec<String> {
            names
                .iter()
                .filter(|name| matches_any(allowed, name))
                .cloned()
                .collect()
        };
        Self {
            llm: self
                .llm
                .as_ref()
                .zip(bounds.llm.as_ref())
                .and_then(|(grant, bound)| intersect_llm(grant, bound)),
            dirs: self
                .dirs
                .iter()
                .filter_map(|grant| intersect_dir(grant, &bounds.dirs))
                .collect(),
            env: named(&self.env, &bounds.env),
            http: self
                .http
                .iter()
                .flat_map(|grant| intersect_http(grant, bounds))
                .collect(),
            secrets: named(&self.secrets, &bounds.secrets),
        }
    }
}

impl GrantBounds {
    /// Returns whether a model may be used.
    pub fn has_model(&self, name: &str) -> bool {
        self.llm
            .as_ref()
            .is_some_and(|llm| matches_any(&llm.models, name))
    }
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| pattern::matches(pattern, name))
}

fn intersect_llm(grant: &LlmGrant, bound: &LlmGrant) -> Option<LlmGrant> {
    let pairs = grant
        .models
        .iter()
        .flat_map(|model| bound.models.iter().map(move |allowed| (model, allowed)));
    let mut models: Vec<String> = pairs
        .filter_map(|(model, allowed)| pattern::intersect(model, allowed))
        .map(str::to_owned)
        .collect();
    models.dedup();
    let calls = grant.calls.into_iter().chain(bound.calls).min();
    (!models.is_empty()).then_some(LlmGrant {
        models,
        default: grant.default.clone(),
        calls,
    })
}

fn intersect_http(grant: &HttpGrant, bounds: &GrantBounds) -> Vec<HttpGrant> {
    let meet = |allowed: &HttpGrant| {
        let host = HostPattern::intersect(&grant.host, &allowed.host)?;
        let path = pattern::intersect(&grant.path, &allowed.path)?.to_owned();
        let methods: Vec<String> = grant
            .methods
            .iter()
            .filter(|m| allowed.methods.contains(m))
            .cloned()
            .collect();
        let sent = |name: &&String| matches_any(&allowed.secrets, name);
        let secrets = grant.secrets.iter().filter(sent).cloned().collect();
        let headers = grant
            .headers
            .iter()
            .filter(|name| allowed.headers.contains(name))
            .cloned()
            .collect();
        (!methods.is_empty()).then_some(HttpGrant {
            host,
            methods,
            path,
            secrets,
            headers,
        })
    };
    bounds.http.iter().filter_map(meet).collect()
}

/// Returns the allowed part of a directory grant, with links in its path resolved: a link must not
/// lead out of what is allowed.
fn intersect_dir(grant: &DirGrant, bounds: &[DirBound]) -> Option<DirGrant> {
    let host = resolve_links(&grant.host)?;
    let holding = bounds
        .iter()
        .filter(|bound| resolve_links(&bound.host).is_some_and(|dir| host.starts_with(dir)));
    // If several bounds match, the one that allows most is used, since each of them alone would be
    // sufficient.
    let bound = holding.max_by_key(|bound| {
        (
            bound.access == Access::Write,
            bound.max_bytes.unwrap_or(u64::MAX),
        )
    })?;
    let access = if bound.access == Access::Write {
        grant.access
    } else {
        Access::Read
    };
    let max_bytes = grant
        .max_bytes
        .into_iter()
        .chain(bound.max_bytes)
        .min()
        .filter(|_| access == Access::Write);
    Some(DirGrant {
        host,
        guest: grant.guest.clone(),
        access,
        max_bytes,
    })
}

/// Resolves the links of a path, which need not exist yet. Returns `None` if they cannot be
/// resolved.
fn resolve_links(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Some(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A dangling link could lead anywhere once its target is created.
            if path.is_symlink() {
                return None;
            }
            let name = path.file_name()?;
            Some(resolve_links(path.parent()?)?.join(name))
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_allowed_where_it_really_is() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("in/deep")).unwrap();
        fs::create_dir_all(home.join("other")).unwrap();
        symlink(home.join("other"), home.join("in/link")).unwrap();
        symlink(home.join("nowhere"), home.join("in/dangling")).unwrap();
        let bound = |access, max_bytes| DirBound {
            host: home.join("in"),
            access,
            max_bytes,
        };
        let check = |host: &str, bound: DirBound, expected: Option<(&str, Access, Option<u64>)>| {
            let grant = DirGrant {
                host: home.join(host),
                guest: "/x".into(),
                access: Access::Write,
                max_bytes: Some(10),
            };
            let left = intersect_dir(&grant, &[bound]);
            let expected = expected.map(|(host, access, max_bytes)| DirGrant {
                host: home.join(host),
                guest: "/x".into(),
                access,
                max_bytes,
            });
            assert_eq!(left, expected, "{host}");
        };
        let write = || bound(Access::Write, Some(5));
        check("in", write(), Some(("in", Access::Write, Some(5))));
        check(
            "in/deep",
            bound(Access::Write, None),
            Some(("in/deep", Access::Write, Some(10))),
        );
        check(
            "in/deep/new/er",
            bound(Access::Read, None),
            Some(("in/deep/new/er", Access::Read, None)),
        );
        check(
            "other/../in/deep",
            write(),
            Some(("in/deep", Access::Write, Some(5))),
        );
        check("in/../other", write(), None);
        check("in/link", write(), None);
        check("in/link/new", write(), None);
        check("in/dangling", write(), None);
        check("in/new/../../other", write(), None);
        check("inner", write(), None);
    }

    #[test]
    fn the_network_is_what_both_name() {
        let grant = |host: &str, methods: &[&str], path: &str, secrets: &[&str]| HttpGrant {
            host: HostPattern::parse(host).expect("a host"),
            methods: methods.iter().map(ToString::to_string).collect(),
            path: path.into(),
            secrets: secrets.iter().map(ToString::to_string).collect(),
            headers: Vec::new(),
        };
        let check = |team: HttpGrant, allowed: HttpGrant, expected: Vec<HttpGrant>| {
            let bounds = GrantBounds {
                http: vec![allowed],
                ..GrantBounds::default()
            };
            let left = Grants {
                http: vec![team],
                ..Grants::default()
            }
            .within(&bounds);
            assert_eq!(left.http, expected);
        };
        let all = || grant("*.example.com", &["GET", "POST"], "/*", &["A", "B"]);
        check(
            all(),
            grant("a.example.com", &["GET"], "/v1/*", &["A"]),
            vec![grant("a.example.com", &["GET"], "/v1/*", &["A"])],
        );
        check(
            grant("*", &["GET"], "/x", &[]),
            all(),
            vec![grant("*.example.com", &["GET"], "/x", &[])],
        );
        check(
            grant("*.a.example.com", &["GET"], "/x", &[]),
            all(),
            vec![grant("*.a.example.com", &["GET"], "/x", &[])],
        );
        let with = |headers: &[&str]| HttpGrant {
            headers: headers.iter().map(ToString::to_string).collect(),
            ..grant("a.example.com", &["GET"], "/x", &[])
        };
        check(
            with(&["via", "x-real-ip"]),
            with(&["via", "forwarded"]),
            vec![with(&["via"])],
        );
        check(with(&["via"]), with(&[]), vec![with(&[])]);
        check(
            grant("127.0.0.1:80", &["GET"], "/x", &[]),
            grant("*", &["GET"], "/*", &[]),
            vec![],
        );
        check(
            grant("localhost", &["GET"], "/x", &[]),
            grant("*", &["GET"], "/*", &[]),
            vec![],
        );
        check(grant("a.org", &["GET"], "/x", &[]), all(), vec![]);
        check(
            grant("a.example.com:8443", &["GET"], "/x", &[]),
            all(),
            vec![],
        );
        check(grant("a.example.com", &["PUT"], "/x", &[]), all(), vec![]);
    }

    #[test]
    fn the_models_are_what_both_name() {
        let models = |names: &[&str], calls| LlmGrant {
            models: names.iter().map(ToString::to_string).collect(),
            default: None,
            calls,
        };
        let met = intersect_llm(&models(&["*"], None), &models(&["small-*", "m"], Some(3)));
        assert_eq!(met, Some(models(&["small-*", "m"], Some(3))));
        assert_eq!(
            intersect_llm(&models(&["large"], None), &models(&["small-*"], None)),
            None
        );
    }
}
